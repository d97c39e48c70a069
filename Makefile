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

include $(addprefix make/,$(addsuffix .mk,backends sources flags library python tests bench bundle rules))

.PHONY: all core install
all: core $(module_files)
core: $(BUILD)/millrace
install: all
	@packaging/install $(BUILD) $(version)

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

include make/commands.mk
