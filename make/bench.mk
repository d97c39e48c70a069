# Programs that measure.

bench_names := $(sort $(patsubst bench/%.cc,%,$(wildcard bench/*.cc)) $(patsubst bench/%/main.cc,%,$(wildcard bench/*/main.cc)))
bench_names := $(filter-out $(if $(use_verbs),,verbs_bench),$(bench_names))
# Whose loops are written for x86.
bench_names := $(filter-out $(if $(filter x86,$(processor)),,exchange_bench onednn_loop),$(bench_names))
bench_binaries := $(bench_names:%=$(BUILD)/bench/%)
# Those that need no package of their own are built with the tests, so that they still build.
plain_bench_binaries := $(filter-out %/micro_bench %/auth_bench,$(bench_binaries))

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
