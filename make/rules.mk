# How objects are made of sources. Read last: it has a rule for each batch.

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

$(batches): $(BUILD)/flags.list tools/compile-batch $$(pch_header) | $(generated) $(contrib_layers) backends
	@mkdir -p $(@D)
	$(call say,CXX,$(@:$(BUILD)/obj/%.o=%))
	$(Q)tools/compile-batch $@ $(batch_files) -- $(CXX) $(CXXFLAGS) $(CXXFLAGS_CUDA) $(pch_flags) $(listed)
