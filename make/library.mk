# The library, its modules and the program.

# Other flags: compile everything anew. Another list of sources: link anew.
remember = $(shell mkdir -p $(BUILD); echo '$(2)' | cmp -s - $(BUILD)/$(1) || echo '$(2)' > $(BUILD)/$(1))
$(call remember,flags.list,$(CXXFLAGS) $(CXXFLAGS_CUDA) $(test_flags) $(PCH) $(plain_folders))
$(call remember,archs.list,$(CUDA_ARCHS))
$(call remember,sources.list,$(sort $(objects)))
$(call remember,modules.list,$(foreach m,$(modules),$(sort $(call module_objects,$(m)))))

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
