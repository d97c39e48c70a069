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
