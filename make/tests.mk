# Test programs, fuzzers and what they share.

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
