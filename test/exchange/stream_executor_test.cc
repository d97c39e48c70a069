// Stream executor: batching of operations into launches, their order, staging, buffer ownership
// and device failures. Uses a fake device whose kernels run when the test advances its queue.
#include "exchange/kernels/stream_executor.h"

#include <sys/mman.h>

#include <cstring>

#include "base/error.h"
#include "exchange/kernels/executor_registry.h"
#include "test/exchange/replica.h"
#include "test/sim/cluster.h"
#include "test/support/emulated_launcher.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::EmulatedLauncher;
using test::EmulatedOptions;
using test::FakeDevice;
using test::FakeDeviceOptions;
using test::FakeMode;
using test::FakeQueue;
using test::Replica;

constexpr int64_t kFloats = 20;

// An executor on a replica with chunks of kFloats, and its queue.
struct Machine {
  explicit Machine(const StreamLimits& limits, const FakeDeviceOptions& device_options = {},
                   const EmulatedOptions& options = {}, int64_t chunks = 8)
      : device(device_options), replica(kFloats * chunks, kFloats) {
    auto made = std::make_unique<EmulatedLauncher<>>(options);
    launcher = made.get();
    executor = std::make_unique<StreamExecutor>(device, std::move(made), replica.arrays,
                                                CodecConfig{}, limits);
    queue = &device.last_queue();
  }
  float weight(uint32_t chunk) const { return replica.arrays.weights[chunk * kFloats]; }

  FakeDevice device;
  Replica replica;
  EmulatedLauncher<>* launcher;
  FakeQueue* queue;
  std::unique_ptr<StreamExecutor> executor;
};

// Diffs that add one value to every element of a chunk.
class Merges {
 public:
  explicit Merges(size_t count) : values_(count, std::vector<float>(kFloats)), ops_(count) {}
  ChunkOp& Set(size_t i, uint32_t chunk, float value) {
    std::fill(values_[i].begin(), values_[i].end(), value);
    ops_[i] = {.kind = ChunkOpKind::kMerge, .chunk = chunk, .in_bytes = 4 * kFloats};
    ops_[i].in = reinterpret_cast<const std::byte*>(values_[i].data());
    return ops_[i];
  }
  // Simulates a transport that reuses a returned buffer.
  void Overwrite(size_t i) {
    std::fill(values_[i].begin(), values_[i].end(), std::numeric_limits<float>::quiet_NaN());
  }
  std::span<ChunkOp> ops() { return ops_; }
  std::span<const std::byte> memory(size_t i) { return std::as_bytes(std::span(values_[i])); }

 private:
  std::vector<std::vector<float>> values_;
  std::vector<ChunkOp> ops_;
};

TEST(StreamExecutor, PutsAsManyOperationsIntoALaunchAsItMay) {
  Machine machine({.launch_ops = 5, .launches = 4});
  Merges merges(12);
  for (uint32_t i = 0; i < 12; ++i) merges.Set(i, i % 8, 1);
  machine.executor->Run(merges.ops());
  EXPECT_EQ(machine.queue->enqueued(), 3u);
  for (uint32_t chunk = 0; chunk < 8; ++chunk) EXPECT_EQ(machine.weight(chunk), chunk < 4 ? 2 : 1);
}

TEST(StreamExecutor, LaunchesBeforeItsStageIsFull) {
  // Room for the payloads of four diffs: 128 bytes each, rounded to cache lines.
  Machine machine({.launch_ops = 100, .stage_bytes = 512});
  Merges merges(10);
  for (uint32_t i = 0; i < 10; ++i) merges.Set(i, 1, 1);
  machine.executor->Run(merges.ops());
  EXPECT_EQ(machine.queue->enqueued(), 3u);
  EXPECT_EQ(machine.weight(1), 10);
  EXPECT_EQ(machine.executor->copied_bytes(), 10u * 4 * kFloats);
}

TEST(StreamExecutor, CopiesNothingThatKernelsReachWhereItIs) {
  Machine machine({.launch_ops = 100, .stage_bytes = 512});
  Merges merges(10);
  for (uint32_t i = 0; i < 10; ++i) {
    merges.Set(i, 1, 1);
    EXPECT_TRUE(machine.executor->RegisterMemory(merges.memory(i)));
  }
  machine.executor->Run(merges.ops());
  EXPECT_EQ(machine.queue->enqueued(), 1u);
  EXPECT_EQ(machine.executor->copied_bytes(), 0u);
  EXPECT_EQ(machine.weight(1), 10);
}

TEST(StreamExecutor, CopiesWhatTheDeviceWillNotShare) {
  Machine machine({});
  Merges merges(1);
  merges.Set(0, 3, 5);
  machine.device.map = [](auto) { return nullptr; };
  EXPECT_FALSE(machine.executor->RegisterMemory(merges.memory(0)));
  machine.executor->Run(merges.ops());
  EXPECT_EQ(machine.weight(3), 5);
  EXPECT_EQ(machine.executor->copied_bytes(), 4u * kFloats);
}

// The same pages at two addresses; the host address is inaccessible.
TEST(StreamExecutor, GivesKernelsTheAddressByWhichTheyReachSharedMemory) {
  const int fd = memfd_create("millrace_test", 0);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  void* const host = mmap(nullptr, 4096, PROT_NONE, MAP_SHARED, fd, 0);
  void* const device = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(host, MAP_FAILED);
  ASSERT_NE(device, MAP_FAILED);
  close(fd);
  auto* const floats = static_cast<float*>(device);
  std::fill_n(floats + 8, kFloats, 3.0f);
  Machine machine({});
  const auto* const bytes = static_cast<const std::byte*>(host);
  machine.device.map = [&](auto) { return static_cast<std::byte*>(device); };
  ASSERT_TRUE(machine.executor->RegisterMemory({bytes, 4096}));
  ChunkOp ops[2] = {{.kind = ChunkOpKind::kMerge, .chunk = 2, .in_bytes = 4 * kFloats},
                    {.kind = ChunkOpKind::kRead, .chunk = 2, .out_bytes = 4 * kFloats}};
  ops[0].in = bytes + 32;
  ops[1].out = static_cast<std::byte*>(host) + 1024;
  machine.executor->Run(ops);
  EXPECT_EQ(machine.weight(2), 3);
  EXPECT_EQ(floats[256], 3);
  EXPECT_EQ(floats[256 + kFloats - 1], 3);
  munmap(host, 4096);
  munmap(device, 4096);
}

TEST(StreamExecutor, ReturnsBuffersOnlyWhenTheKernelsThatReadThemHaveEnded) {
  Machine machine({.launch_ops = 2, .launches = 4}, {.mode = FakeMode::kLate});
  Merges merges(6);
  for (uint32_t i = 0; i < 6; ++i) {
    merges.Set(i, i, 1);
    machine.executor->RegisterMemory(merges.memory(i));  // so that kernels read the buffer itself
  }
  machine.executor->Start(merges.ops());
  EXPECT_EQ(machine.queue->enqueued(), 3u);
  EXPECT_EQ(machine.queue->run(), 0u);
  EXPECT_EQ(machine.queue->waits(), 0);
  machine.executor->Finish();
  EXPECT_EQ(machine.queue->run(), 3u);
  for (uint64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(merges.ops()[i].result, 0);
    merges.Overwrite(i);
  }
  for (uint32_t chunk = 0; chunk < 6; ++chunk) EXPECT_EQ(machine.weight(chunk), 1);
  const int waits = machine.queue->waits();
  machine.executor->Finish();
  EXPECT_EQ(machine.queue->waits(), waits);  // nothing is in flight
}

TEST(StreamExecutor, WaitsForTheOldestLaunchWhenAllAreUnderWay) {
  Machine machine({.launch_ops = 1, .launches = 3}, {.mode = FakeMode::kLate});
  Merges merges(5);
  for (uint32_t i = 0; i < 5; ++i) merges.Set(i, 0, 1);
  machine.executor->Start(merges.ops().first(2));
  EXPECT_EQ(machine.queue->waits(), 0);
  machine.executor->Start(merges.ops().subspan(2));
  // One of the three launches is always being filled.
  EXPECT_EQ(machine.queue->enqueued(), 5u);
  EXPECT_EQ(machine.queue->run(), 3u);
  machine.executor->Finish();
  EXPECT_EQ(machine.queue->run(), 5u);
  EXPECT_EQ(machine.weight(0), 5);
}

// Operations are started, kernels end and batches are finished in random order; buffers are reused
// when their batch has finished. A buffer returned too early makes sums wrong.
TEST(StreamExecutor, KeepsBuffersApartThroughALongRun) {
  Rng rng(test::Seed(), {1});
  for (const uint32_t launches : {1u, 2u, 4u, 8u}) {
    for (const bool shares : {false, true}) {
      Machine machine({.launch_ops = 3, .launches = launches, .stage_bytes = 512},
                      {.mode = FakeMode::kLate}, {.seed = test::Seed()});
      constexpr size_t kBuffers = 32;
      Merges merges(kBuffers);
      for (size_t i = 0; shares && i < kBuffers; ++i)
        machine.executor->RegisterMemory(merges.memory(i));
      std::vector<float> sums(8);
      size_t lent = 0;
      for (int step = 0; step < 3000; ++step) {
        const size_t count = std::min<size_t>(rng.Below(6), kBuffers - lent);
        for (size_t i = lent; i < lent + count; ++i) {
          const auto chunk = static_cast<uint32_t>(rng.Below(8));
          const auto value = static_cast<float>(rng.Below(7));
          merges.Set(i, chunk, value);
          sums[chunk] += value;
        }
        machine.executor->Start(merges.ops().subspan(lent, count));
        lent += count;
        if (rng.Below(3) == 0) machine.queue->Advance();
        if (lent < kBuffers && rng.Below(6) != 0) continue;
        machine.executor->Finish();
        for (size_t i = 0; i < lent; ++i) {
          EXPECT_EQ(merges.ops()[i].result, 0);
          merges.Overwrite(i);
        }
        lent = 0;
      }
      machine.executor->Finish();
      for (uint32_t chunk = 0; chunk < 8; ++chunk) EXPECT_EQ(machine.weight(chunk), sums[chunk]);
    }
  }
}

TEST(StreamExecutor, CarriesOutWhatIsAskedOfOneChunkInOrder) {
  // Chains of one launch run in any order, as do lanes.
  for (const uint32_t launch_ops : {1u, 2u, 100u}) {
    Machine machine({.launch_ops = launch_ops}, {}, {.lanes = 5, .seed = test::Seed()});
    Merges merges(6);
    std::vector<float> seen(2 * kFloats);
    // 1e8 + 1 equals 1e8 in float32, so that the result depends on the order.
    merges.Set(0, 4, 1e8f);
    merges.Set(1, 4, 1);
    merges.Set(2, 4, -1e8f);
    merges.Set(3, 4, 1);
    std::vector<ChunkOp> ops(merges.ops().begin(), merges.ops().begin() + 4);
    for (int i = 0; i < 2; ++i) {
      ChunkOp read{.kind = ChunkOpKind::kRead, .chunk = 4, .out_bytes = 4 * kFloats};
      read.out = reinterpret_cast<std::byte*>(seen.data() + i * kFloats);
      ops.insert(ops.begin() + (i == 0 ? 1 : 5), read);
    }
    machine.executor->Run(ops);
    EXPECT_EQ(machine.weight(4), 1);
    EXPECT_EQ(seen[0], 1e8f);
    EXPECT_EQ(seen[kFloats], 1);
    if (launch_ops == 100) {
      EXPECT_EQ(machine.launcher->chain_counts, std::vector<uint32_t>{1});
    }
  }
}

TEST(StreamExecutor, RefusesDiffsThatAreNotFiniteBeforeAnythingIsWritten) {
  Machine machine({.launch_ops = 3});
  Merges merges(4);
  for (uint32_t i = 0; i < 4; ++i) merges.Set(i, 0, 1);
  merges.Overwrite(2);
  machine.executor->Run(merges.ops());
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(merges.ops()[i].result, i == 2 ? kNonFinite : 0);
  EXPECT_EQ(machine.weight(0), 3);
}

TEST(StreamExecutor, JudgesLengthsThatNoPayloadHas) {
  Machine machine({});
  Merges merges(4);
  const uint32_t lengths[] = {0, 4 * kFloats - 1, 4 * kFloats + 4, UINT32_MAX};
  const std::vector<float> longest(kFloats + 1, 1);
  for (size_t i = 0; i < 4; ++i) {
    ChunkOp& op = merges.Set(i, 0, 1);
    op.in = reinterpret_cast<const std::byte*>(longest.data());
    op.in_bytes = lengths[i];
  }
  // reads no byte of the last payload, which exceeds the maximum length
  machine.executor->Run(merges.ops());
  for (const ChunkOp& op : merges.ops()) EXPECT_EQ(op.result, kMalformed);
  EXPECT_EQ(machine.weight(0), 0);
}

TEST(StreamExecutor, RefusesChunksThatAreTooLongForADevice) {
  FakeDevice device;
  Replica replica(kMaxKernelFloats + 1, kMaxKernelFloats + 1);
  const std::string said = test::ErrorOf(
      [&] { StreamExecutor(device, std::make_unique<EmulatedLauncher<>>(), replica.arrays); });
  EXPECT_EQ(said,
            "fake device 0: chunk_floats is 8193: expected at most 8192 in the memory "
            "of a device");
}

TEST(StreamExecutor, SaysWhyTheDeviceHasFailedAndGivesEverythingBack) {
  Machine machine({.launch_ops = 2}, {.fails_at = 2});
  Merges merges(8);
  for (uint32_t i = 0; i < 8; ++i) merges.Set(i, i, 1);
  const std::string why = "fake device 0: an illegal address was met";
  EXPECT_EQ(test::ErrorOf([&] { machine.executor->Run(merges.ops()); }), why);
  EXPECT_EQ(test::ErrorOf([&] { machine.executor->Run({}); }), why);
  EXPECT_EQ(test::ErrorOf([&] { machine.executor->Finish(); }), why);
}

// Refuses the launch with this number, from 0. The device works on.
class RefusingLauncher : public KernelLauncher {
 public:
  explicit RefusingLauncher(int refused) : refused_(refused) {}
  void Launch(const KernelBatch& batch, Queue& queue) override {
    if (launches_++ == refused_) throw DeviceError("fake device 0: out of resources");
    launcher_.Launch(batch, queue);
  }

 private:
  const int refused_;
  int launches_ = 0;
  EmulatedLauncher<> launcher_{EmulatedOptions{}};
};

TEST(StreamExecutor, GivesNothingBackWhileKernelsRunThatWereLaunchedBeforeARefusedOne) {
  FakeDevice device({.mode = FakeMode::kLate});
  Replica replica(kFloats * 8, kFloats);
  StreamExecutor executor(device, std::make_unique<RefusingLauncher>(2), replica.arrays,
                          CodecConfig{}, {.launch_ops = 1, .launches = 4});
  Merges merges(3);
  for (uint32_t i = 0; i < 3; ++i) {
    merges.Set(i, i, 1);
    executor.RegisterMemory(merges.memory(i));
  }
  EXPECT_EQ(test::ErrorOf([&] { executor.Run(merges.ops()); }), "fake device 0: out of resources");
  EXPECT_EQ(device.last_queue().run(), 2u);
  for (int chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(replica.arrays.weights[chunk * kFloats], chunk < 2 ? 1 : 0);
  }
}

TEST(StreamExecutor, NoticesAFailureWhileItWaits) {
  Machine machine({.launch_ops = 2}, {.mode = FakeMode::kLate});
  Merges merges(4);
  for (uint32_t i = 0; i < 4; ++i) merges.Set(i, i, 1);
  machine.executor->Start(merges.ops());
  machine.queue->Fail("it has fallen off the bus");
  EXPECT_EQ(test::ErrorOf([&] { machine.executor->Finish(); }),
            "fake device 0: it has fallen off the bus");
  EXPECT_EQ(machine.weight(0), 0);
}

TEST(StreamExecutor, EndsWhenTheDeviceTouchesNothingAnyMore) {
  FakeDevice device({.mode = FakeMode::kLate});
  Replica replica(kFloats, kFloats);
  Merges merges(3);
  for (uint32_t i = 0; i < 3; ++i) merges.Set(i, 0, 1);
  {
    StreamExecutor executor(device, std::make_unique<EmulatedLauncher<>>(), replica.arrays, {},
                            {.launch_ops = 1, .launches = 8});
    executor.Start(merges.ops());
    EXPECT_EQ(replica.arrays.weights[0], 0);
  }
  EXPECT_EQ(replica.arrays.weights[0], 3);
}

// Beside a solver that writes the weights on a queue of its own.
class OrderedStreamExecutor : public testing::Test {
 protected:
  OrderedStreamExecutor()
      : executor_(device_, std::make_unique<EmulatedLauncher<>>(), replica_.arrays, {}, {},
                  &order_),
        executors_(device_.last_queue()) {}

  void Add(float value) {
    order_.Write(*solver_, [&] {
      FakeQueue::Of(*solver_).Enqueue([=, this] { replica_.arrays.weights[0] += value; });
    });
  }
  ChunkOp Reading(ChunkOpKind kind = ChunkOpKind::kRead) {
    ChunkOp op{.kind = kind, .out_bytes = 4 * kFloats};
    op.out = reinterpret_cast<std::byte*>(seen_.data());
    return op;
  }

  FakeDevice device_{{.mode = FakeMode::kLate}};
  Replica replica_{kFloats, kFloats};
  WriteOrder order_;
  std::vector<float> seen_ = std::vector<float>(kFloats);
  const std::unique_ptr<Queue> solver_ = device_.MakeQueue(QueuePriority::kNormal);
  StreamExecutor executor_;
  FakeQueue& executors_;
};

TEST_F(OrderedStreamExecutor, ReadsWhatWasWrittenBeforeAndHoldsNothingUp) {
  Add(1);
  ChunkOp read = Reading();
  executor_.Start({&read, 1});
  Add(2);
  solver_->Synchronize();
  EXPECT_EQ(replica_.arrays.weights[0], 3);
  EXPECT_EQ(executors_.run(), 0u) << "an update has waited for the reading";
  executor_.Finish();
  EXPECT_EQ(seen_[0], 3);  // what is newer is as good
  Add(4);
  executor_.Start({&read, 1});
  executor_.Finish();
  EXPECT_EQ(seen_[0], 7) << "the reading has not waited for the update";
}

TEST_F(OrderedStreamExecutor, WritesInTheOrderOfAllChangesAlsoIfItReadsAsWell) {
  Merges merges(1);
  for (const bool reads : {false, true}) {
    const float before = replica_.arrays.weights[0];
    std::vector<ChunkOp> ops = {merges.Set(0, 0, 8)};
    if (reads) ops.push_back(Reading());
    const uint64_t run = executors_.run();
    executor_.Start(ops);
    Add(1);
    solver_->Synchronize();
    EXPECT_GT(executors_.run(), run) << "an update has not waited for the merge";
    EXPECT_EQ(replica_.arrays.weights[0], before + 9);
    executor_.Finish();
  }
}

TEST(StreamExecutor, WorksOnAQueueBehindThoseOfSolvers) {
  Machine machine({});
  EXPECT_EQ(machine.device.priorities(), std::vector{QueuePriority::kLow});
}

TEST(ExecutorRegistry, SaysWhatABuildLacks) {
  FakeDevice device;
  Replica replica(kFloats, kFloats);
  EXPECT_EQ(test::ErrorOf([&] { ExecutorRegistry::Get().Make(device, replica.arrays, {}, {}); }),
            "fake device 0: this build has no exchange for devices of this type");
}

// ---- Under the exchange ----

// Nodes with replicas on devices and one on the host; a third of the frames is lost.
TEST(StreamExecutor, CarriesAnExchangeAsTheHostDoes) {
  for (const Codec codec : test::kAllCodecs) {
    SCOPED_TRACE(static_cast<int>(codec));
    const sim::ClusterOptions options{
        .nodes = 3, .size = 200, .codec = {codec, 0.5f}, .joined = false};
    FakeDevice device({.mode = FakeMode::kLate});
    sim::Cluster x(options);
    for (uint16_t i = 0; i < 2; ++i) {
      const ReplicaArrays arrays = x[i].executor->arrays();
      x[i].executor = std::make_unique<StreamExecutor>(
          device, std::make_unique<EmulatedLauncher<>>(EmulatedOptions{.seed = test::Seed()}),
          arrays, options.codec, StreamLimits{.launch_ops = 4, .launches = 2});
      x[i].exchange = std::make_unique<Exchange>(sim::ConfigOf(options, i), x[i].executor.get());
    }
    x.Settle();
    Rng loss(test::Seed(), {3});
    x.delivers = [&](uint16_t, uint16_t, const sim::FrameBytes&) { return loss.Below(3) != 0; };
    std::vector<double> sums(200);
    Rng rng(test::Seed(), {2});
    for (int tick = 0; tick < 200; ++tick) {
      for (size_t node = 0; node < 3; ++node) {
        const auto weight = static_cast<int64_t>(rng.Below(200));
        x.Add(node, weight, 1);
        sums[static_cast<size_t>(weight)] += 1;
      }
      x.Tick();
    }
    x.delivers = nullptr;
    x.Settle();
    for (size_t i = 0; i < 200; ++i) {
      EXPECT_EQ(x[0].weights[i], x[1].weights[i]);
      EXPECT_EQ(x[0].weights[i], x[2].weights[i]);
      EXPECT_NEAR(x[0].weights[i], sums[i], 1e-3) << "codec " << static_cast<int>(codec);
    }
  }
}

}  // namespace
}  // namespace millrace
