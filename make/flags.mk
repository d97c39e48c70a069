# How the compiler and the linker are called, and the flags that single folders need.

PCH ?= on
# For developers: another compiler or library than theirs may warn of what is no error.
WERROR ?= off
werror := $(if $(filter on 1,$(WERROR)),-Werror)
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

CXXFLAGS_CUDA := $(if $(use_cuda),-isystem $(CUDA_HOME)/include)
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
$(hdf5_objects): CXXFLAGS += $(shell pkg-config --cflags hdf5-serial 2>/dev/null)
