# Targets that need no rule of the build. They build nothing, or install packages and call make again.

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
