# Millrace. The targets a user needs:
#   make quickstart   install what is missing, build, train a net on real data
#   make test         install what is missing, build, run the test suite
#   make              build/millrace, library and modules (packages must be present: tools/install-deps)
#   make core         the same without the modules
#   make python       the Python modules millrace and caffe, in build/python
#   make wheel        the same for pip, in dist/
#   make install      PREFIX=/usr/local LIBDIR=PREFIX/lib DESTDIR=: program, library, headers, manual
#   make bench        side-by-side measurements      make accuracy   the accuracy table
#   make check        the part of the suite that one runs while working
#   make asan tsan    the suite under sanitizers     make layers     the dependency rule
#   make links        the links between the documents
#   make pictures     docs/images/architecture.svg, from the table of make layers (graphviz)
#   make fuzz         longer fuzzing of the parsers  make format     clang-format
#   make soak SEEDS=n simulated clusters, n more seeds
#   make cluster-demo three machines in namespaces on one box train together (root)
#   make cluster-accuracy   what 2 and 3 machines and lost packets cost in accuracy (root)
#   make time-to-accuracy   how soon 1 machine and 2 over 1 Gbit/s learn MNIST, a figure (root)
#   make test-rdma    all tests of RDMA between devices of an emulated machine (QEMU), of
#                     which make test runs some
#   make bench-rdma   segments over RDMA there, beside bare verbs and ib_send_bw
#   make caffe-check  the same files, weights and snapshots in Caffe itself, BVLC's (root)
#   make scale        simulated clusters of up to 1,024 nodes: bytes, sweeps, a figure
#   make gpu-bundle   tests and measurements of GPUs in a folder for a bare machine with a driver
#   make dist         the program and its libraries in a folder that runs on other machines
#   make deb          Debian packages for the release of this machine, in dist/deb
#   make mutants      planted bugs, each of which the tests must notice
#   make chaos        clusters under every kind of fault, 30 minutes: MINUTES= SEED= ONLY= EXCEPT= (root)
#   make nightly      what make test leaves out, hours: NIGHTLY="soak chaos" SEEDS= MINUTES=
# Settings: V=1 (show commands)  BUILD=dir  WERROR=on|off (warnings are errors)  PCH=on|off  SRC_BATCH=n  TEST_BATCH=n  CUDA=auto|on|off  VERBS=auto|on|off  ONNX=auto|on|off
#   MPI=auto|on|off  OPENCV=auto|on|off  PYTHON=auto|on|off  PYTHON3=/usr/bin/python3 (the interpreter to build for)
#   CUDA_ARCHS="sm_80 sm_90"  (the GPUs to compile for; those of this machine, or sm_90)
# For arm64 on another machine: BUILD=build-arm64 CUDA=off CXX="aarch64-linux-gnu-g++ --sysroot=DIR"

.SUFFIXES:
.SECONDARY:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all
SHELL := /bin/bash
comma := ,
space := $(subst ,, )

SANITIZE ?=
V ?=
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' $(1) $(2))
BUILD ?= build$(addprefix -,$(SANITIZE))
VERBS ?= auto

# Targets that use no rule of the part that builds: they build nothing, or install packages and call
# make again for what they build. For them that part is not read, because it asks the compiler and
# other programs, which may not be installed yet.
no_build := deps quickstart cluster-demo cluster-accuracy time-to-accuracy check test asan tsan bench accuracy \
  fuzz chaos soak scale test-rdma bench-rdma caffe-check mutants nightly layers links pictures format clean
ifneq ($(filter-out $(no_build),$(or $(MAKECMDGOALS),all)),)

CXX := $(if $(shell command -v ccache),ccache )g++
CUDA ?= auto
ONNX ?= auto
OPENCV ?= auto
MPI ?= auto
PYTHON ?= auto
PYTHON3 ?= $(firstword $(wildcard /usr/bin/python3) python3)
PCH ?= on
# For developers: another compiler or library than theirs may warn of what is no error.
WERROR ?= off
werror := $(if $(filter on 1,$(WERROR)),-Werror)
CUDA_HOME ?= /usr/local/cuda
# The GPUs of this machine, or Hopper. For others the driver compiles PTX when a program starts.
ifndef CUDA_ARCHS
  CUDA_ARCHS := $(patsubst %,sm_%,$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n 's/^\([0-9]*\)\.\([0-9]\)$$/\1\2/p' | sort -un))
  CUDA_ARCHS := $(or $(CUDA_ARCHS),sm_90)
endif
ptx := compute_$(shell printf '%s\n' 80 $(CUDA_ARCHS:sm_%=%) | sort -n | head -n 1)

# ---- Backends: chosen here by file, listed in the build's first lines. ------
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

CXXFLAGS := -std=c++20 -O2 -g1 -fno-omit-frame-pointer -fopenmp-simd -fno-math-errno -Wall -Wextra $(werror) -pthread \
  -fPIC -fno-semantic-interposition $(if $(SANITIZE),,-fvisibility-inlines-hidden) \
  -Iinclude -Isrc -I. -I$(BUILD)/gen $(CXXFLAGS_EXTRA)
LDFLAGS := -pthread -Wl,--as-needed
# Of the library and its modules: calls within one are direct; a symbol that is missing is an error here.
shared_flags := -shared -Wl,-Bsymbolic-functions $(if $(SANITIZE),,-Wl$(comma)-z$(comma)defs)
LDLIBS := -lhwy -lprotobuf -lglog -lgflags -lboost_thread -lboost_system -ldnnl -llmdb -lleveldb -lhdf5_serial -ljpeg -lpng -lexpat -lz -lisal -lssl -lcrypto -lgomp -lrt
ifneq ($(SANITIZE),)
  # Boost.Asio's fences and coroutines look wrong to GCC 12 where it instruments them.
  CXXFLAGS += -fsanitize=$(SANITIZE) -O1 $(if $(filter thread,$(SANITIZE)),-Itest/support/tsan -Wno-tsan,-Wno-mismatched-new-delete)
  LDFLAGS += -fsanitize=$(SANITIZE)
endif

all_sources := $(filter-out $(other_processors),$(shell find src -name '*.cc' | sort))
# Modules are shared objects, build/modules/NAME.so, which the library loads (base/module.h): what of
# the sources is theirs, and what they are linked with. The rest is the library's.
module_sources_cuda := $(filter $(shell find src -name 'cuda*.cc' -o -name '*_cuda.cc'),$(all_sources))
module_sources_cuda := $(filter-out $(if $(use_nccl),,$(shell find src -path '*/nccl/*.cc')),$(module_sources_cuda))
module_libs_cuda := -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(CUDA_HOME)/lib64 -lcudart
# The descriptor of a transport is part of every build.
module_sources_verbs := $(filter-out %/descriptor.cc,$(filter src/transport/verbs/%,$(all_sources)))
module_libs_verbs := -lrdmacm -libverbs
module_sources_onnx := $(filter src/model/onnx/%,$(all_sources))
module_libs_onnx := -lonnx_proto
module_sources_mpi := $(filter src/collective/mpi/%,$(all_sources))
module_libs_mpi = $(shell pkg-config --libs ompi-c)
module_sources_opencv := $(filter src/data/opencv/%,$(all_sources))
module_libs_opencv := -lopencv_imgcodecs -lopencv_core
module_sources_contrib := $(filter src/contrib/%,$(all_sources))
all_modules := contrib cuda mpi onnx opencv verbs
modules := $(strip contrib $(if $(use_cuda),cuda) $(if $(use_mpi),mpi) $(if $(use_onnx),onnx) $(if $(use_opencv),opencv) $(if $(use_verbs),verbs))
cuda_kernels := $(if $(use_cuda),$(shell find src -name '*.cu'))
sources := $(filter-out $(foreach m,$(all_modules),$(module_sources_$(m))) $(shell find src -name 'cuda*.cc' -o -name '*_cuda.cc'),$(all_sources))
CXXFLAGS_CUDA := $(if $(use_cuda),-isystem $(CUDA_HOME)/include)
onnx_sources := $(shell find src test -path '*/onnx/*.cc')
# Without the C++ interface, which MPI has given up.
$(module_sources_mpi:%.cc=$(BUILD)/obj/%.o): CXXFLAGS += -DOMPI_SKIP_MPICXX $(patsubst -I%,-isystem %,$(shell pkg-config --cflags ompi-c 2>/dev/null))
$(module_sources_opencv:%.cc=$(BUILD)/obj/%.o): CXXFLAGS += -isystem $(opencv_include)
# As Debian's library is built.
$(onnx_sources:%.cc=$(BUILD)/obj/%.o): CXXFLAGS += -DONNX_ML=1 -DONNX_NAMESPACE=onnx
# Differences must be the same on every machine: no product may be fused with a sum
# where the processor can. (-Wno-psabi: vectors are passed to inline functions only. -mssse3: the
# least that Highway has vectors for; every x86 since 2011 has it.)
no_fma := -ffp-contract=off -Wno-psabi $(if $(filter x86,$(processor)),-mssse3)
$(BUILD)/obj/src/exchange/%.o $(BUILD)/obj/bench/exchange_bench/%.o $(BUILD)/obj/bench/kernel_bench/%.o: CXXFLAGS += $(no_fma)
# Tests build in half the time with -O1; what they test is the library's.
test_flags := $(no_fma) -O1
$(BUILD)/obj/test/%.o: CXXFLAGS += $(test_flags)
# Folders whose code runs before training, beside it or once in an iteration: no loops that need more.
plain_folders := src/capi src/control src/linktest src/metrics src/proto src/rendezvous src/topology src/train tools
plain_objects := $(addsuffix /%.o,$(addprefix $(BUILD)/obj/,$(plain_folders)))
$(plain_objects): CXXFLAGS += -O1
# GCC 12 does not see that Boost.Asio allocates the frames of coroutines as it frees them.
$(BUILD)/obj/src/control/%.o: CXXFLAGS += -Wno-mismatched-new-delete
# With the types of the C functions, which the comparison with the recorded ABI reads (test/capi/abi).
$(BUILD)/obj/src/capi/%.o: CXXFLAGS += -g
# Debian has HDF5's headers in a folder of their own; only files that are named for it include them.
hdf5_sources := $(shell find src test -name '*hdf5*.cc')
hdf5_objects := $(hdf5_sources:%.cc=$(BUILD)/obj/%.o)
$(hdf5_objects): CXXFLAGS += $(shell pkg-config --cflags hdf5-serial 2>/dev/null)

contrib_layers := $(BUILD)/gen/nn/contrib_layers.inc
protos := $(wildcard src/proto/*.proto)
generated := $(protos:src/%.proto=$(BUILD)/gen/%.pb.cc)
# Files of one folder are compiled in batches of so many, at most 9 (tools/compile-batch): less than half
# the time of a build from nothing. 1: each on its own, to work on them.
SRC_BATCH ?= 9
TEST_BATCH ?= 5
# $(1): files of one folder, $(2): how many a batch has; their objects, named for the files in them, and a
# rule for each batch.
in_batches = $(if $(1),$(call batch,$(wordlist 1,$(2),$(1))) $(call in_batches,$(wordlist $(words x $(wordlist 1,$(2),1 2 3 4 5 6 7 8 9)),$(words $(1)),$(1)),$(2)))
batch = $(if $(word 2,$(1)),$(call batch_rule,$(call batch_object,$(1)),$(1)),$(1:%.cc=$(BUILD)/obj/%.o))
batch_object = $(BUILD)/obj/$(dir $(firstword $(1)))$(subst _test,,$(subst $() ,+,$(basename $(notdir $(1))))).o
batch_rule = $(eval $(1): $(2))$(eval $(1): batch_files := $(2))$(eval batches += $(1))$(1)
# Files that are compiled singly: they need flags of their own, other programs link them, their loops are
# compiled for several processors, or GCC 12 gives lambdas of C functions of several files one name.
single := $(hdf5_sources) $(wildcard test/device/*.cc test/onnx/*.cc test/segment/device_segment_test.cc) \
  $(filter-out src/exchange/kernels/rules/%,$(filter src/exchange/kernels/%,$(all_sources))) \
  $(filter src/capi/% src/control/page.cc src/nn/onednn/% %_kernel.cc src/solver/hogwild_update.cc,$(all_sources)) \
  tools/log_setup.cc tools/progress_line.cc tools/screen.cc
# $(1): files of any folders; their objects. Called once for each list, since it makes rules.
src_objects = $(patsubst %.cc,$(BUILD)/obj/%.o,$(filter $(single),$(1))) \
  $(foreach d,$(sort $(dir $(1))),$(call in_batches,$(filter-out $(single),$(filter $(wildcard $(d)*.cc),$(1))),$(SRC_BATCH)))
objects := $(call src_objects,$(sources))
contrib_objects := $(call src_objects,$(module_sources_contrib))
module_objects = $(if $(filter contrib,$(1)),$(contrib_objects),$(patsubst %.cc,$(BUILD)/obj/%.o,$(module_sources_$(1)))) $(if $(filter cuda,$(1)),$(cuda_kernels:%.cu=$(BUILD)/obj/%.cu.o))
module_files := $(modules:%=$(BUILD)/modules/%.so)
generated_objects := $(generated:%.cc=%.o)
tool_objects := $(call src_objects,$(wildcard tools/*.cc))

# The objects of a test program's own folder.
own_files = $(filter-out $(sim_objects:$(BUILD)/obj/%.o=%.cc),$(sort $(wildcard test/$(1)/*.cc)))
own_objects = $(patsubst %.cc,$(BUILD)/obj/%.o,$(filter $(single),$(call own_files,$(1))) $(filter-out %_test.cc $(single),$(call own_files,$(1)))) \
  $(call in_batches,$(filter-out $(single),$(filter %_test.cc,$(call own_files,$(1)))),$(TEST_BATCH))

test_support := $(patsubst %.cc,$(BUILD)/obj/%.o,$(wildcard test/support/*.cc))
# The simulation library: an archive, of which each program takes what it uses.
sim_objects := $(patsubst %.cc,$(BUILD)/obj/%.o,$(filter-out %_test.cc,$(wildcard test/sim/*.cc test/sim/fabric/*.cc)))
test_names := $(filter-out support fuzz,$(notdir $(patsubst %/,%,$(dir $(wildcard test/*/*_test.cc)))))
test_names := $(sort $(filter-out rdma_vm $(if $(use_onnx),,onnx) $(if $(use_cuda),,cuda),$(test_names)))
# In an emulated machine that has devices for them: all of them by make test-rdma, some by
# make test; with sanitizers they would take for ever.
rdma_tests := $(if $(use_verbs),$(BUILD)/test/rdma_vm_test $(BUILD)/test/refuse_groups.so)
emulated := $(if $(SANITIZE),,rdma_vm)
test_binaries := $(test_names:%=$(BUILD)/test/%_test)
# Run by make chaos; built with the tests, one of which needs the library.
chaos_programs := $(BUILD)/test/chaos $(BUILD)/test/set_clock.so
fuzz_binaries := $(patsubst test/fuzz/%.cc,$(BUILD)/fuzz/%,$(wildcard test/fuzz/*_fuzz.cc))
bench_names := $(sort $(patsubst bench/%.cc,%,$(wildcard bench/*.cc)) $(patsubst bench/%/main.cc,%,$(wildcard bench/*/main.cc)))
bench_names := $(filter-out $(if $(use_verbs),,verbs_bench),$(bench_names))
# Whose loops are written for x86.
bench_names := $(filter-out $(if $(filter x86,$(processor)),,exchange_bench onednn_loop),$(bench_names))
bench_binaries := $(bench_names:%=$(BUILD)/bench/%)
# Those that need no package of their own are built with the tests, so that they still build.
plain_bench_binaries := $(filter-out %/micro_bench %/auth_bench,$(bench_binaries))

.PHONY: all core install
all: core $(module_files)
core: $(BUILD)/millrace
install: all
	@packaging/install $(BUILD) $(version)

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

# Other flags: compile everything anew. Another list of sources: link anew. Not for goals that build nothing.
remember = $(if $(filter-out layers links pictures format clean,$(or $(MAKECMDGOALS),all)),$(shell mkdir -p $(BUILD); echo '$(2)' | cmp -s - $(BUILD)/$(1) || echo '$(2)' > $(BUILD)/$(1)))
$(call remember,flags.list,$(CXXFLAGS) $(CXXFLAGS_CUDA) $(test_flags) $(PCH) $(plain_folders))
$(call remember,archs.list,$(CUDA_ARCHS))
$(call remember,sources.list,$(sort $(objects)))
$(call remember,modules.list,$(foreach m,$(modules),$(sort $(call module_objects,$(m)))))

$(BUILD)/gen/%.pb.cc $(BUILD)/gen/%.pb.h &: src/%.proto include/millrace/export.h
	@mkdir -p $(@D)
	$(call say,PROTOC,$@)
	$(Q)protoc --cpp_out=dllexport_decl=MILLRACE_API:$(BUILD)/gen -Isrc $<
	$(Q)sed -i 's,^// @@protoc_insertion_point(includes)$$,#include "millrace/export.h",' $(@:.cc=.h)
	$(if $(filter %/caffe.proto,$<),@mkdir -p $(BUILD)/gen/millrace; echo '#include "proto/caffe.pb.h"' > $(BUILD)/gen/millrace/caffe.pb.h)

$(BUILD)/gen/%.pb.o: $(BUILD)/gen/%.pb.cc $(BUILD)/flags.list
	$(call say,CXX,$@)
	$(Q)$(CXX) $(CXXFLAGS) -O1 -c $< -o $@

# -MMD leaves out what a system header includes: as Highway does with the exchange's loops.
listed = $(if $(filter src/exchange/kernels/% test/exchange/% test/segment/%,$(firstword $(filter %.cc,$^))),-MD,-MMD) -MP

# Headers that many files include are compiled once: src/precompiled.h, test/precompiled.h. The flags
# must be those of the files that use them; GCC warns if they are not.
pch_users_src := $(foreach d,src/batches src/contrib src/data src/metrics src/model src/nn src/proto src/simulate src/solver src/strategy src/topology src/train tools,$(BUILD)/obj/$(d)/%.o)
pch_users_test := $(BUILD)/obj/test/%.o
ifneq ($(PCH),off)
# What ccache needs to keep files that are compiled with them.
export CCACHE_SLOPPINESS := pch_defines,time_macros
define precompiled
$(BUILD)/pch/$(1).h.gch: $(2) $(BUILD)/flags.list | $(generated)
	@mkdir -p $$(@D)
	$$(call say,PCH,$$<)
	$$(Q)$$(CXX) $$(CXXFLAGS) $(3) -MMD -MP -MT $$@ -MF $(BUILD)/pch/$(1).d -x c++-header -c $$< -o $$@
endef
$(eval $(call precompiled,src,src/precompiled.h,))
$(eval $(call precompiled,plain,src/precompiled.h,-O1))
$(eval $(call precompiled,test,test/precompiled.h,$$(test_flags)))
# GCC 12 warns of copies of std::string in system headers that it has not read as such.
pch_warnings := -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread \
  $(if $(SANITIZE),-Wno-maybe-uninitialized)
pch_of = $(if $(filter $(pch_users_test),$@),test,$(if $(filter $(pch_users_src),$@),$(if $(filter $(plain_objects),$@),plain,src)))
pch_flags = $(if $(pch_of),-include $(BUILD)/pch/$(pch_of).h -fpch-preprocess -Winvalid-pch $(pch_warnings))
-include $(BUILD)/pch/src.d $(BUILD)/pch/plain.d $(BUILD)/pch/test.d
pch_header = $(if $(pch_of),$(BUILD)/pch/$(pch_of).h.gch)
endif

.SECONDEXPANSION:  # pch_header depends on the target
$(BUILD)/obj/%.o: %.cc $(BUILD)/flags.list $$(pch_header) | $(generated) $(contrib_layers) backends
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS) $(CXXFLAGS_CUDA) $(pch_flags) $(listed) -c $< -o $@

# Includes the files of the page.
$(BUILD)/obj/src/control/page.o: $(wildcard src/control/page/*)
$(BUILD)/obj/src/device/cuda_device.o: CXXFLAGS += -DMILLRACE_OLDEST_GPU=$(ptx:compute_%=%)
$(BUILD)/obj/src/device/cuda_device.o: $(BUILD)/archs.list

$(BUILD)/obj/%.cu.o: %.cu $(BUILD)/flags.list $(BUILD)/archs.list | $(generated) $(contrib_layers) backends
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(if $(filter ccache,$(CXX)),ccache )$(CUDA_HOME)/bin/nvcc -std=c++20 -O3 -Xcompiler -fPIC $(if $(werror),-Werror all-warnings) $(if $(filter src/exchange/%,$<),-fmad=false) -Iinclude -Isrc -gencode "arch=$(ptx),code=[$(subst $(space),$(comma),$(CUDA_ARCHS) $(ptx))]" -MMD -MF $(@:.o=.d) -c $< -o $@

# The minor version is part of the soname: see include/millrace/version.h. Layers, solvers and devices
# register themselves: all objects are linked in, so that a program which uses any of them gets every
# registration.
version := $(shell awk '/define MILLRACE_VERSION_M|define MILLRACE_VERSION_P/ { v = v s $$3; s = "." } END { print v }' include/millrace/version.h)
soname := libmillrace.so.$(word 1,$(subst ., ,$(version))).$(word 2,$(subst ., ,$(version)))
$(BUILD)/libmillrace.map: packaging/make-map include/millrace/version.h
	@packaging/make-map $(version) > $@
$(BUILD)/libmillrace.so: $(objects) $(generated_objects) $(BUILD)/sources.list $(BUILD)/libmillrace.map
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) $(shared_flags) -Wl,-soname,$(soname) -Wl,--version-script=$(BUILD)/libmillrace.map \
	  $(objects) $(generated_objects) $(LDLIBS) -o $(BUILD)/$(soname)
	$(Q)ln -sf $(soname) $@

define module_rule
$(BUILD)/modules/$(1).so: $(call module_objects,$(1)) $(BUILD)/libmillrace.so $(BUILD)/modules.list
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$$(CXX) $$(LDFLAGS) $$(shared_flags) -Wl,-soname,$(1).so -Wl,-rpath,'$$$$ORIGIN/..' \
	  $(call module_objects,$(1)) -L$(BUILD) -lmillrace $$(module_libs_$(1)) $$(LDLIBS) -o $$@
endef
$(foreach m,$(modules),$(eval $(call module_rule,$(m))))
# A kernel that is launched and that no .cu file registers is an error here, not on a GPU.
ifneq ($(use_cuda),)
$(BUILD)/kernels.checked: $(BUILD)/modules/cuda.so $(BUILD)/modules/contrib.so $(BUILD)/libmillrace.so tools/check-kernels
	@tools/check-kernels $(wordlist 1,3,$^)
	@touch $@
all: $(BUILD)/kernels.checked
endif
# The layer types of module contrib, which the library names in errors where the module is missing. A new
# list only if it differs, so that the library need not be linked anew.
$(contrib_layers): $(module_sources_contrib)
	@mkdir -p $(@D)
	@sed -n 's/^const RegisterLayer<.*("\([A-Za-z0-9]*\)");$$/"\1",/p' $^ > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# Programs and tests are linked with the library, and with the modules whose functions they name.
libraries := $(BUILD)/libmillrace.so $(module_files)
link_library = -L$(BUILD) -lmillrace $(module_files) $(foreach m,$(modules),$(module_libs_$(m))) -Wl,-rpath,'$$ORIGIN/..' -Wl,-rpath,'$$ORIGIN/../modules'

# The folders of the library, from the program's: in the build, and the usual ones of an installation.
library_folders := . ../lib ../lib64 $(addprefix ../lib/,$(shell $(CXX) -print-multiarch))
$(BUILD)/millrace: $(tool_objects) $(BUILD)/libmillrace.so
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) -Wl,-rpath,'$(subst $(space),:,$(library_folders:%=$$ORIGIN/%))' $(tool_objects) -L$(BUILD) -lmillrace $(LDLIBS) -o $@

# The Python modules, in a folder for PYTHONPATH. What they are made of is the library and
# Python files; caffe.proto.caffe_pb2 is made here.
python_suffix := $(if $(use_python),$(word 1,$(python_build)))
# The folders of the library, from the module's: in a wheel, in the build, and of an installation.
python_library_folders := . ../.. ../../.. ../../../../lib64 $(addprefix ../../../,$(shell $(CXX) -print-multiarch))
python_objects := $(patsubst %.cc,$(BUILD)/obj/%.o,$(wildcard python/src/*.cc))
$(python_objects) $(BUILD)/obj/python/plugin/python_layers.o: CXXFLAGS += -fvisibility=hidden $(if $(use_python),$(patsubst %,-isystem %,$(wordlist 2,9,$(python_build))))
python_files := $(patsubst python/%,$(BUILD)/python/%,$(wildcard python/millrace/*.py python/millrace/*.pyi python/millrace/py.typed python/caffe/*.py))
python_module := $(BUILD)/python/millrace/_millrace$(python_suffix)
python_proto := $(BUILD)/python/caffe/proto/caffe_pb2.py
# Layers in Python for the program: needs the interpreter as a shared library.
python_embed := $(if $(use_python),$(shell $(PYTHON3) python/probe.py embed))
python_plugin := $(if $(python_embed),$(BUILD)/python/millrace/python_layers.so)
python_plugin_objects := $(BUILD)/obj/python/plugin/python_layers.o
$(python_plugin): $(python_plugin_objects) $(BUILD)/libmillrace.so
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) -shared -Wl,-rpath,'$(subst $(space),:,$(python_library_folders:%=$$ORIGIN/%))' \
	  $(python_plugin_objects) -L$(BUILD) -lmillrace $(python_embed) -o $@
$(python_module): $(python_objects) $(BUILD)/libmillrace.so
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) -shared -Wl,-rpath,'$(subst $(space),:,$(python_library_folders:%=$$ORIGIN/%))' \
	  $(python_objects) -L$(BUILD) -lmillrace -lprotobuf -lglog -lgflags -o $@
$(python_files): $(BUILD)/python/%: python/%
	@mkdir -p $(@D)
	@cp $< $@
$(python_proto): src/proto/caffe.proto
	@mkdir -p $(@D)
	$(call say,PROTOC,$@)
	$(Q)protoc --python_out=$(BUILD)/python/caffe -Isrc $<
	@touch $(@D)/__init__.py
.PHONY: python
python: $(if $(use_python),$(python_module) $(python_plugin) $(python_files) $(python_proto))
	@$(if $(use_python),:,echo "python: skipped: $(strip $(why_no_python))")

# For pip: the modules and the library, but not the libraries that this needs.
.PHONY: wheel
wheel: python
	@$(if $(use_python),$(PYTHON3) python/make_wheel.py $(BUILD) $(version) dist,:)

$(BUILD)/libsim.a: $(sim_objects)
	@rm -f $@
	$(call say,AR,$@)
	$(Q)$(shell $(CXX) -print-prog-name=ar) rcs $@ $^

# Once for each program, since the rules of its batches are made with the list. -rdynamic: a module
# that is loaded later shares the tables of kernels with the program.
$(foreach name,$(test_names) rdma_vm,$(eval objects_of_$(name) := $(call own_objects,$(name))))
define test_binary
$(BUILD)/test/$(1)_test: $(objects_of_$(1)) $(test_support) $(BUILD)/libsim.a $(libraries)
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$$(CXX) $$(LDFLAGS) -rdynamic $$(filter %.o,$$^) $(BUILD)/libsim.a $$(link_library) -lgtest $$(LDLIBS) -o $$@
endef
$(foreach name,$(test_names) rdma_vm,$(eval $(call test_binary,$(name))))
$(batches): $(BUILD)/flags.list tools/compile-batch $$(pch_header) | $(generated) $(contrib_layers) backends
	@mkdir -p $(@D)
	$(call say,CXX,$(@:$(BUILD)/obj/%.o=%))
	$(Q)tools/compile-batch $@ $(batch_files) -- $(CXX) $(CXXFLAGS) $(CXXFLAGS_CUDA) $(pch_flags) $(listed)

# Tests of the C API are C files, each compiled as C99 and as C++.
CC := $(subst g++,gcc,$(subst clang++,clang,$(CXX)))
c_flags = -pedantic -Wall -Wextra -Werror -O1 -g1 -fPIC -Iinclude -I. -MMD -MP $(if $(SANITIZE),-fsanitize=$(SANITIZE))
$(BUILD)/obj/test/capi/%.c99.o: test/capi/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -std=c99 $(c_flags) -c $< -o $@
$(BUILD)/obj/test/capi/%.cpp.o: test/capi/%.c
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) -std=c++20 $(c_flags) -x c++ -c $< -o $@
c_tests := $(wildcard test/capi/*.c)
$(BUILD)/test/capi_test: $(c_tests:%.c=$(BUILD)/obj/%.c99.o) $(c_tests:%.c=$(BUILD)/obj/%.cpp.o)

$(BUILD)/test/tools_test: $(BUILD)/obj/tools/progress_line.o $(BUILD)/obj/tools/log_setup.o $(BUILD)/obj/tools/screen.o
$(BUILD)/test/batches_test $(BUILD)/test/tools_test: $(BUILD)/obj/test/data/test_db.o
# The fake device's code for layers and update rules.
$(BUILD)/test/gpu_test: $(patsubst %.cc,$(BUILD)/obj/%.o,$(wildcard test/nn/fake_gpu_*.cc) test/data/test_db.cc)

# Put before librdmacm by tests of test/rdma_vm.
$(BUILD)/test/%.so: test/rdma_vm/preload/%.cc
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) -std=c++20 -O2 -Wall -Wextra $(werror) -fPIC -shared $< -o $@

$(BUILD)/test/%.so: test/chaos/preload/%.cc
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) -std=c++20 -O2 -Wall -Wextra $(werror) -fPIC -shared $< -o $@

chaos_objects := $(patsubst %.cc,$(BUILD)/obj/%.o,$(wildcard test/chaos/program/*.cc) \
  test/chaos/fault_plan.cc test/netns/network.cc test/netns/bad_switch.cc)
$(BUILD)/test/chaos: $(chaos_objects) $(libraries)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) $(filter %.o,$^) $(link_library) $(LDLIBS) -o $@

fuzz_support := $(patsubst %.cc,$(BUILD)/obj/%.o,$(wildcard test/fuzz/support/*.cc) test/support/encode_images.cc)
$(BUILD)/fuzz/%: $(BUILD)/obj/test/fuzz/%.o $(fuzz_support) $(BUILD)/libsim.a $(libraries)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) $(filter %.o,$^) $(BUILD)/libsim.a $(link_library) $(LDLIBS) -o $@

# One file, or a folder with a main.cc.
define bench_binary
$(BUILD)/bench/$(1): $(patsubst %.cc,$(BUILD)/obj/%.o,$(wildcard bench/$(1).cc bench/$(1)/*.cc)) $(libraries)
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$$(CXX) $$(LDFLAGS) $$(filter %.o,$$^) $$(link_library) $$(LDLIBS) -o $$@
endef
$(foreach name,$(bench_names),$(eval $(call bench_binary,$(name))))
$(BUILD)/bench/udp_bench $(BUILD)/bench/packet_bench $(BUILD)/bench/duplex_bench: \
  $(BUILD)/obj/test/netns/network.o $(BUILD)/obj/bench/network/rate.o
$(BUILD)/bench/segment_bench $(BUILD)/bench/verbs_bench: $(BUILD)/obj/bench/network/segment_nodes.o
$(BUILD)/bench/data_bench: $(BUILD)/obj/test/netns/network.o
$(BUILD)/bench/micro_bench: LDLIBS += -lbenchmark
$(BUILD)/bench/auth_bench: LDLIBS += -lsodium
# The simulated fabric is the tests'.
$(BUILD)/bench/scale: $(patsubst %,$(BUILD)/obj/test/sim/%.o,exchange_node network shape fabric/bound fabric/cluster fabric/fabric fabric/port fabric/wire)

# What a machine needs that has an NVIDIA driver and nothing else. Of the library only what
# these programs use, so that the libraries of layers and images stay behind.
bundle_of = $(filter-out $(hdf5_objects),$(filter $(foreach f,$(1),$(BUILD)/obj/src/$(f)/%),$(objects) $(call module_objects,cuda)))
bundle_kernels := $(call bundle_of,base device weights exchange)
bundle_segments := $(bundle_kernels) $(call bundle_of,transport segment metrics proto topology cluster linktest) $(generated_objects)
bundle_support := $(patsubst %,$(BUILD)/obj/test/%.o,support/support support/doc_page support/fake_device support/fake_graphs)
bundle_sim := $(patsubst %,$(BUILD)/obj/test/sim/%.o,cluster exchange_node membership_cluster network)
bundle_libs := $(if $(use_cuda),-L$(CUDA_HOME)/lib64 -Wl$(comma)-rpath$(comma)$(CUDA_HOME)/lib64) -lhwy -lglog -lgflags -lboost_thread -lboost_system -lisal -lrt -lgtest $(if $(use_cuda),-lcudart)
# $(1): what it is called; $(2): its objects; $(3): further libraries.
define bundle_binary
$(BUILD)/bundle/$(1): $(2)
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$$(CXX) $$(LDFLAGS) $$^ $(bundle_libs) $(3) -s -o $$@
endef
objects_in = $(patsubst %.cc,$(BUILD)/obj/%.o,$(wildcard $(1)/*.cc))
$(eval $(call bundle_binary,exchange_test,$(objects_of_exchange) $(bundle_support) $(bundle_sim) $(bundle_kernels)))
$(eval $(call bundle_binary,device_test,$(call objects_in,test/device) $(bundle_support) $(bundle_kernels)))
$(eval $(call bundle_binary,kernel_bench,$(call objects_in,bench/kernel_bench) $(bundle_kernels)))
bundle_device_segment := $(patsubst %,$(BUILD)/obj/test/%.o,segment/device_segment_test sim/handshake_cluster sim/network)
$(eval $(call bundle_binary,segment_test,$(bundle_device_segment) $(bundle_support) $(bundle_segments),-lprotobuf -lcrypto))
$(eval $(call bundle_binary,segment_bench,$(call objects_in,bench/segment_bench) $(BUILD)/obj/bench/network/segment_nodes.o $(bundle_segments),-lprotobuf -lcrypto))
# Nets, update rules and whole runs need all of the library, with the libraries of images, too.
$(BUILD)/bundle/training_test: $(call objects_in,test/gpu) $(call objects_in,test/support) \
  $(patsubst %.cc,$(BUILD)/obj/%.o,$(wildcard test/nn/*gpu_*.cc) test/nn/device_net_test.cc test/data/test_db.cc) \
  $(BUILD)/libsim.a $(libraries)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(LDFLAGS) $(filter %.o,$^) $(BUILD)/libsim.a $(link_library) -rdynamic -lgtest $(LDLIBS) -s -o $@
$(BUILD)/bundle/link_bench: $(BUILD)/bench/link_bench
	@mkdir -p $(@D)
	$(Q)strip -s -o $@ $<
# The headers of CUPTI that describe the records which bench/gpu_trace reads.
cupti_headers := $(if $(use_cuda),$(firstword $(dir $(shell grep -ls 'CUpti_ActivityKernel10;' \
  $(CUDA_HOME)/include/cupti_activity*.h $(CUDA_HOME)/extras/CUPTI/include/cupti_activity*.h))))
trace_flags := -std=c++20 -O2 -Wall -Wextra -Werror -fPIC -I. -isystem $(CUDA_HOME)/include \
  -isystem $(cupti_headers)
# Loaded by CUDA's driver into the program that it traces, and no part of it.
$(BUILD)/bundle/libmillrace_trace.so: $(wildcard bench/gpu_trace/*)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(if $(cupti_headers),$(CXX) $(trace_flags) -fvisibility=hidden -shared $(filter %.cc,$^) -ldl -pthread -s -o $@,echo \
	  "$@: left out: CUPTI's headers with CUpti_ActivityKernel10 are not in $(CUDA_HOME)")
$(BUILD)/test/fake_cupti.so: test/cuda/cupti/fake_cupti.cc
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(if $(cupti_headers),$(CXX) $(trace_flags) -shared $< -o $@)
$(BUILD)/test/cuda_test: | $(BUILD)/bundle/libmillrace_trace.so $(BUILD)/test/fake_cupti.so
# These have lists of objects of their own, which `make tests` proves by linking them.
bundle_linked := exchange_test device_test segment_test kernel_bench segment_bench
bundle_programs := $(bundle_linked) training_test link_bench

.PHONY: gpu-bundle
gpu-bundle: $(if $(use_cuda),$(addprefix $(BUILD)/bundle/,$(bundle_programs) libmillrace_trace.so) $(BUILD)/millrace)
	$(if $(use_cuda),,$(error gpu-bundle: this build has no CUDA (make backends says why)))
	@BUILD=$(BUILD) DATA=$(DATA) tools/make-gpu-bundle $(bundle_programs)

# The program with its libraries in a folder for cluster nodes without packages of their own.
.PHONY: dist
dist: all
	@BUILD=$(BUILD) tools/make-dist $(version)

# Debian packages for the release of this machine, in dist/deb.
.PHONY: deb
deb: all python
	@packaging/debian/make-deb $(BUILD) $(version) dist/deb

.PHONY: tests runtest
tests: all python $(test_binaries) $(chaos_programs) $(fuzz_binaries) $(if $(emulated),$(rdma_tests)) $(if $(SANITIZE),,$(plain_bench_binaries) $(if $(use_cuda),$(addprefix $(BUILD)/bundle/,$(bundle_linked))))
runtest: tests
	@BUILD=$(BUILD) PYTHON3=$(PYTHON3) tools/run-tests $(test_names) python $(if $(SANITIZE),,packaging) $(emulated)
# What one runs while working: no namespaces, emulated machines, fuzzers or bundles; 1,000 seeds.
.PHONY: quick-tests
quick-tests: all python $(filter-out $(BUILD)/test/netns_test,$(test_binaries))
	@BUILD=$(BUILD) PYTHON3=$(PYTHON3) SEEDS=1000 FUZZ_RUNS=0 GTEST_FILTER='-*Bundle*:*Bare*:*Install*' tools/run-tests $(filter-out netns,$(test_names)) python
# What other targets build after they have installed its packages.
.PHONY: chaos-programs bench-programs rdma-tests rdma-bench-programs
chaos-programs: all $(chaos_programs)
bench-programs: all $(bench_binaries)
rdma-tests: all $(rdma_tests)
rdma-bench-programs: all $(if $(use_verbs),$(BUILD)/bench/verbs_bench)

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

endif  # the part that builds

.PHONY: deps
deps:
	@tools/install-deps

.PHONY: quickstart
quickstart: deps
	@$(MAKE) --no-print-directory -j$$(nproc) core
	@examples/fashion_mnist/quickstart

.PHONY: cluster-demo
cluster-demo: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@tools/cluster-demo
.PHONY: cluster-accuracy
cluster-accuracy: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD=$(BUILD) tools/cluster-accuracy

.PHONY: time-to-accuracy
time-to-accuracy: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD=$(BUILD) tools/time-to-accuracy

.PHONY: check test asan tsan
check: deps
	@$(MAKE) --no-print-directory -j$$(nproc) quick-tests
	@$(MAKE) --no-print-directory layers links
test: deps
	@$(if $(filter off 0,$(VERBS)),,tools/install-deps --rdma || echo "test: goes on without what could not be installed")
	@$(MAKE) --no-print-directory -j$$(nproc) tests
	@$(MAKE) --no-print-directory layers links
	@$(MAKE) --no-print-directory runtest

asan: deps
	@$(MAKE) --no-print-directory -j$$(nproc) SANITIZE=address,undefined BUILD=$(BUILD)-asan tests
	@SEEDS=$${SEEDS:-1000} TEST_LIMIT=$${TEST_LIMIT:-4h} $(MAKE) --no-print-directory SANITIZE=address,undefined BUILD=$(BUILD)-asan runtest
# Fuzzers have one thread: nothing there that could race. TSan does not see the barriers of libgomp, so
# oneDNN has one thread.
tsan: deps
	@$(MAKE) --no-print-directory -j$$(nproc) SANITIZE=thread BUILD=$(BUILD)-tsan tests
	@SEEDS=$${SEEDS:-1000} TEST_LIMIT=$${TEST_LIMIT:-4h} FUZZ_RUNS=0 OMP_NUM_THREADS=1 MILLRACE_TEST_PATIENCE=$${MILLRACE_TEST_PATIENCE:-8} \
	  $(MAKE) --no-print-directory SANITIZE=thread BUILD=$(BUILD)-tsan runtest

.PHONY: bench accuracy fuzz layers links pictures format clean
bench:
	@tools/install-deps --bench
	@$(MAKE) --no-print-directory -j$$(nproc) bench-programs
	@BUILD=$(BUILD) bench/run
	@BUILD=$(BUILD) bench/cluster
	@[ ! -e $(BUILD)/caffe-root ] || BUILD=$(BUILD) bench/caffe
accuracy: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD=$(BUILD) examples/mnist/accuracy
fuzz: deps
	@$(MAKE) --no-print-directory -j$$(nproc) SANITIZE=address,undefined BUILD=$(BUILD)-asan tests
	@for binary in $(BUILD)-asan/fuzz/*_fuzz; do echo $$binary; $$binary --runs=$${RUNS:-1000000} --seed=random || exit 1; done
# Needs root and minutes (MINUTES=30); SEED=n repeats one.
.PHONY: chaos
chaos: deps
	@$(MAKE) --no-print-directory -j$$(nproc) chaos-programs
	@BUILD=$(BUILD) examples/fashion_mnist/get_data
	@BUILD=$(BUILD) MINUTES=$(MINUTES) SEED=$(SEED) ONLY=$(ONLY) EXCEPT="$(EXCEPT)" $(BUILD)/test/chaos
# From the time on unless FIRST_SEED says where, so that no two runs are the same.
.PHONY: soak
soak: deps
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/test/sim_test
	@SEEDS=$(or $(SEEDS),100000) FIRST_SEED=$(or $(FIRST_SEED),$$(date +%s)00000) $(BUILD)/test/sim_test --gtest_filter='*ManySeeds*'
# What docs/scale.md tells of; minutes. FLAGS="--wire=udp ..." for others.
.PHONY: scale
scale: deps
	@$(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/bench/scale
	@$(BUILD)/bench/scale --csv=$(BUILD)/scale.csv --svg=$(BUILD)/scale.svg $(FLAGS)
.PHONY: test-rdma
test-rdma:
	@tools/install-deps
	@tools/install-deps --rdma || echo "test-rdma: goes on without what could not be installed"
	@$(MAKE) --no-print-directory -j$$(nproc) rdma-tests
	@BUILD=$(BUILD) test/rdma_vm/run
.PHONY: bench-rdma
bench-rdma:
	@tools/install-deps
	@tools/install-deps --rdma || echo "bench-rdma: goes on without what could not be installed"
	@$(MAKE) --no-print-directory -j$$(nproc) rdma-bench-programs
	@BUILD=$(BUILD) bench/rdma
# Caffe runs in a root folder of Debian 11, which is made once (test/caffe/prepare).
.PHONY: caffe-check
caffe-check: deps
	@tools/install-deps --debootstrap || echo "caffe-check: goes on without what could not be installed"
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@BUILD=$(BUILD) test/caffe/run
.PHONY: mutants
mutants: deps
	@BUILD=$(BUILD) test/mutations/run
.PHONY: nightly
nightly: deps
	@BUILD=$(BUILD) NIGHTLY="$(NIGHTLY)" MINUTES=$(MINUTES) SEEDS=$(SEEDS) tools/nightly
layers:
	@tools/check-layers
links:
	@tools/check-links
pictures:
	@tools/draw-architecture
format:
	clang-format -i $$(git ls-files '*.h' '*.cc' '*.cu')
clean:
	rm -rf build build-asan build-tsan
