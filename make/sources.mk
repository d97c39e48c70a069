# What is compiled: the files of the library and of each module, and their objects, in batches.

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
onnx_sources := $(shell find src test -path '*/onnx/*.cc')
hdf5_sources := $(shell find src test -name '*hdf5*.cc')
hdf5_objects := $(hdf5_sources:%.cc=$(BUILD)/obj/%.o)

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
