# Which backends and which processor a build is for. Backends are chosen by file; a build's first lines list them.

CXX := $(if $(shell command -v ccache),ccache )g++
CUDA ?= auto
ONNX ?= auto
OPENCV ?= auto
MPI ?= auto
PYTHON ?= auto
PYTHON3 ?= $(firstword $(wildcard /usr/bin/python3) python3)
CUDA_HOME ?= /usr/local/cuda
# The GPUs of this machine, or Hopper. For others the driver compiles PTX when a program starts.
ifndef CUDA_ARCHS
  CUDA_ARCHS := $(patsubst %,sm_%,$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n 's/^\([0-9]*\)\.\([0-9]\)$$/\1\2/p' | sort -un))
  CUDA_ARCHS := $(or $(CUDA_ARCHS),sm_90)
endif
ptx := compute_$(shell printf '%s\n' 80 $(CUDA_ARCHS:sm_%=%) | sort -n | head -n 1)

have_cuda := $(wildcard $(CUDA_HOME)/bin/nvcc)
have_verbs := $(wildcard /usr/include/rdma/rdma_cma.h)
have_onnx := $(wildcard /usr/include/onnx/onnx_pb.h)
opencv_include := /usr/include/opencv4
have_opencv := $(wildcard $(opencv_include)/opencv2/imgcodecs.hpp)
use_cuda := $(if $(filter off,$(CUDA)),,$(have_cuda))
use_verbs := $(if $(filter off 0,$(VERBS)),,$(have_verbs))
use_onnx := $(if $(filter off 0,$(ONNX)),,$(have_onnx))
use_opencv := $(if $(filter off 0,$(OPENCV)),,$(have_opencv))
# Open MPI's headers lie where its pkg-config file says.
have_mpi := $(if $(filter off 0,$(MPI)),,$(shell pkg-config --exists ompi-c 2>/dev/null && echo ompi-c))
use_mpi := $(have_mpi)
have_nccl := $(firstword $(wildcard $(CUDA_HOME)/include/nccl.h /usr/include/nccl.h))
use_nccl := $(if $(use_cuda),$(have_nccl))
ifeq ($(CUDA)$(have_cuda),on)
  $(error CUDA=on, but $(CUDA_HOME)/bin/nvcc does not exist; set CUDA_HOME)
endif
ifeq ($(VERBS)$(have_verbs),on)
  $(error VERBS=on, but /usr/include/rdma/rdma_cma.h does not exist; install librdmacm-dev)
endif
ifeq ($(ONNX)$(have_onnx),on)
  $(error ONNX=on, but /usr/include/onnx/onnx_pb.h does not exist; install libonnx-dev)
endif
ifeq ($(OPENCV)$(have_opencv),on)
  $(error OPENCV=on, but $(opencv_include)/opencv2/imgcodecs.hpp does not exist; install libopencv-imgcodecs-dev)
endif

# What builds the Python modules: the headers' folders, and how the name of a module ends. Of an
# interpreter that lacks something, the reason after "no:".
python_build := $(if $(filter off 0,$(PYTHON)),no: PYTHON=$(PYTHON),$(if $(SANITIZE),no: SANITIZE=$(SANITIZE),\
  $(or $(shell $(PYTHON3) python/probe.py 2>/dev/null),no: $(PYTHON3) does not run: install python3)))
use_python := $(filter-out no:%,$(firstword $(python_build)))
why_no_python = $(patsubst no:,,$(firstword $(python_build))) $(wordlist 2,99,$(python_build))
ifeq ($(PYTHON)$(use_python),on)
  $(error PYTHON=on, but$(why_no_python))
endif

ifeq ($(MPI)$(have_mpi),on)
  $(error MPI=on, but pkg-config does not find ompi-c; install libopenmpi-dev)
endif

# The family of processors that the compiler compiles for. Files NAME_x86.cc and NAME_arm64.cc are
# compiled for one of them only.
machine := $(firstword $(subst -, ,$(shell $(CXX) -dumpmachine 2>/dev/null)))
ifeq ($(machine),)
  $(error $(CXX) does not run; make deps installs what a build needs)
endif
processor := $(patsubst aarch64,arm64,$(patsubst x86_64,x86,$(machine)))
ifeq ($(filter x86 arm64,$(processor)),)
  $(error $(CXX) compiles for "$(machine)", expected x86_64 or aarch64)
endif
other_processors := $(filter-out %_$(processor).cc,$(shell find src -name '*_x86.cc' -o -name '*_arm64.cc'))

.PHONY: backends
backends:
	@echo "processor               $(processor)"
	@echo "backend  cpu (oneDNN)   on"
	@echo "backend  cuda           $(if $(use_cuda),on   ($(CUDA_HOME); devices, layers, exchange kernels),off  ($(if $(filter off,$(CUDA)),CUDA=off,no $(CUDA_HOME)/bin/nvcc)))"
	@echo "backend  nccl           $(if $(use_nccl),on   (strategy allreduce between GPUs),off  ($(if $(use_cuda),no nccl.h in $(CUDA_HOME)/include or /usr/include,no CUDA)))"
	@echo "backend  verbs (RDMA)   $(if $(use_verbs),on   (transport verbs),off  ($(if $(filter off 0,$(VERBS)),VERBS=$(VERBS),no rdma/rdma_cma.h: install librdmacm-dev)))"
	@echo "backend  onnx           $(if $(use_onnx),on   (millrace convert),off  ($(if $(filter off 0,$(ONNX)),ONNX=$(ONNX),no onnx/onnx_pb.h: install libonnx-dev)))"
	@echo "backend  opencv         $(if $(use_opencv),on   (images that are neither JPEG nor PNG),off  ($(if $(filter off 0,$(OPENCV)),OPENCV=$(OPENCV),no opencv2/imgcodecs.hpp: install libopencv-imgcodecs-dev)))"
	@echo "backend  mpi            $(if $(use_mpi),on   (strategy allreduce between processes),off  ($(if $(filter off 0,$(MPI)),MPI=$(MPI),pkg-config finds no ompi-c: install libopenmpi-dev)))"
	@echo "backend  python         $(if $(use_python),on   (make python: modules millrace and caffe, $(PYTHON3)),off  ($(strip $(why_no_python))))"
