# What is made for other machines: programs for GPUs, a folder with all libraries, Debian packages.

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
