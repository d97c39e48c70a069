// Segments whose replicas are in device memory: on an emulated device, whose pages the processor
// may not touch and whose kernels run as late as allowed, and on the GPUs of this machine.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/rng.h"
#include "exchange/kernels/stream_executor.h"
#include "test/conformance/udp_group.h"
#include "test/sim/handshake_cluster.h"
#include "test/sim/segment_cluster.h"
#include "test/support/cuda_devices.h"
#include "test/support/emulated_launcher.h"
#include "test/support/fake_transport.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using sim::SegmentCluster;

constexpr Codec kCodecs[] = {Codec::kFloat32, Codec::kBfloat16, Codec::kInt8, Codec::kSparse};

struct DeviceKind {
  std::string name;
  int ordinal = -1;  // of a GPU; below 0: the emulated device
};
void PrintTo(const DeviceKind& kind, std::ostream* out) { *out << kind.name; }

// Includes at least one GPU, so that a missing GPU shows as skipped.
std::vector<DeviceKind> DeviceKinds() {
  std::vector<DeviceKind> all = {{"fake"}};
  for (const int ordinal : CudaOrdinals()) all.push_back({StrCat("cuda", ordinal), ordinal});
  return all;
}

class DeviceSegment : public testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (GetParam().ordinal >= 0) RequireCudaDevice(GetParam().ordinal);
  }

  ReplicaDevice MakeReplicaDevice() {
    if (GetParam().ordinal >= 0) {
      ReplicaDevice replica_device = DeviceReplica(DeviceType::kCuda, GetParam().ordinal);
      replica_device.make_executor =
          [this, make = replica_device.make_executor](const auto&... arguments) {
            auto made = make(arguments...);
            executors_.push_back(static_cast<StreamExecutor*>(made.get()));
            return made;
          };
      return replica_device;
    }
    return {&device_,
            [this](const ReplicaArrays& arrays, const CodecConfig& codec, const MergeRuleConfig&) {
              // A limit so low that a pass makes several launches.
              auto made = std::make_unique<StreamExecutor>(
                  device_,
                  std::make_unique<EmulatedLauncher<>>(
                      EmulatedOptions{.seed = Seed(), .device = &device_}),
                  arrays, codec, StreamLimits{.launch_ops = 32});
              executors_.push_back(made.get());
              queues_.push_back(&device_.last_queue());
              return made;
            }};
  }
  // Places the replicas of these nodes on the device and all others on the host.
  void PutOnDevice(SegmentCluster* segment, const std::set<int>& nodes) {
    segment->replica_device = [this, nodes](int node) {
      return nodes.contains(node) ? MakeReplicaDevice() : HostReplica();
    };
  }

  FakeDevice device_{{.mode = FakeMode::kLate}};  // outlives all replicas
  std::vector<StreamExecutor*> executors_;
  std::vector<FakeQueue*> queues_;
};

// Lets the nodes make progress in random order until all have all of it. Returns the sum of the
// steps added to each weight.
std::vector<double> Progress(SegmentCluster* segment, int nodes, int64_t floats, int iterations) {
  Rng rng(Seed(), {11});
  std::vector<double> sums(floats);
  for (int i = 0; i < iterations; ++i) {
    const int node = static_cast<int>(rng.Below(nodes));
    const auto step = static_cast<float>(rng.Below(9)) - 4.0f;
    sums[static_cast<int64_t>(segment->made(node)) % floats] += step;
    segment->Iterate(node, step);
    segment->Pass();
  }
  segment->Run(2500);
  return sums;
}

void ExpectSums(SegmentCluster* segment, int nodes, const std::vector<double>& sums) {
  const std::vector<float> first = segment->weights(0);
  for (size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(first[i], sums[i], 1e-3) << i;
  for (int node = 1; node < nodes; ++node) EXPECT_EQ(segment->weights(node), first) << node;
}

void ExpectNothingRefused(SegmentCluster* segment, int nodes) {
  for (int node = 0; node < nodes; ++node) {
    const ExchangeStats stats = segment->net(node).metrics().exchange();
    for (const DropReason drop : {DropReason::kNonFinite, DropReason::kPayload,
                                  DropReason::kChecksum, DropReason::kMagic}) {
      EXPECT_EQ(stats.drops[drop], 0u) << node << ' ' << DropReasonName(drop);
    }
  }
}

TEST_P(DeviceSegment, BringsTheProgressOfEveryNodeToAllOthersOnceInAnyCodec) {
  for (const Codec codec : kCodecs) {
    for (const bool mixed : {false, true}) {
      SCOPED_TRACE(StrCat("codec ", static_cast<int>(codec), mixed ? ", mixed" : ""));
      NetSegmentConfig config;
      config.exchange.codec = {codec, 0.5f};
      const int nodes = mixed ? 3 : 2;
      SegmentCluster segment(nodes, 3000, config);
      PutOnDevice(&segment, mixed ? std::set<int>{0, 2} : std::set<int>{0, 1});
      segment.StartAll();
      const std::vector<double> sums = Progress(&segment, nodes, 3000, 1000);
      ExpectSums(&segment, nodes, sums);
      ExpectNothingRefused(&segment, nodes);
      for (int node = 0; node < nodes; ++node) {
        EXPECT_EQ(segment.net(node).state().global_iterations(), 1000u);
      }
    }
  }
}

TEST_P(DeviceSegment, EndsWithTheBitsOfASegmentOfHosts) {
  for (const Codec codec : kCodecs) {
    SCOPED_TRACE(static_cast<int>(codec));
    std::vector<std::vector<std::vector<float>>> ends;  // by run and node
    for (const std::set<int>& on_device : {std::set<int>{}, {0, 1, 2}, {1}}) {
      NetSegmentConfig config;
      config.exchange.codec = {codec, 1e-3f};
      SegmentCluster segment(3, 3000, config);
      PutOnDevice(&segment, on_device);
      segment.StartAll();
      Rng rng(Seed(), {12});
      for (int i = 0; i < 600; ++i) {
        segment.Iterate(i % 3, rng.Gaussian());
        segment.Pass();
      }
      segment.Run(3000);
      ends.push_back({segment.weights(0), segment.weights(1), segment.weights(2)});
      if (codec == Codec::kSparse) continue;  // the codec retains values below its threshold
      EXPECT_EQ(ends.back()[1], ends.back()[0]);
      EXPECT_EQ(ends.back()[2], ends.back()[0]);
    }
    EXPECT_EQ(ends[1], ends[0]);
    EXPECT_EQ(ends[2], ends[0]);
  }
}

TEST_P(DeviceSegment, SignsFramesOfWeightsThatTheProcessorCannotRead) {
  NetSegmentConfig config;
  config.filter.key = std::make_shared<const SecretKey>(sim::KeyOf('k'));
  SegmentCluster segment(3, 3000, config);
  PutOnDevice(&segment, {0, 1});
  segment.StartAll();
  ExpectSums(&segment, 3, Progress(&segment, 3, 3000, 1000));
}

TEST_P(DeviceSegment, TakesInNodesThatJoinLateAndTakesOverFromThoseThatDie) {
  SegmentCluster segment(3, 4000);
  PutOnDevice(&segment, {0, 1});
  segment.Start(0, 5.0f);
  segment.Run(2500);
  ASSERT_TRUE(segment.net(0).state().bootstrapped());
  segment.Start(1, 9.0f);
  segment.Start(2, 7.0f);
  segment.Run(1500);
  ASSERT_TRUE(segment.Together());
  EXPECT_EQ(segment.weights(1), std::vector<float>(4000, 5.0f));
  EXPECT_EQ(segment.weights(2), segment.weights(0));
  segment.TakeTurns(300);
  segment.Run(500);
  for (const int dies : {0, 1, 2}) {
    segment.Kill(dies);
    const int others[] = {(dies + 1) % 3, (dies + 2) % 3};
    for (int i = 0; i < 100; ++i) segment.Iterate(others[i % 2], 1.0f);
    segment.Run(6000);
    EXPECT_EQ(segment.net(others[0]).state().members(), 2u);
    EXPECT_EQ(segment.weights(others[0]), segment.weights(others[1]));
    segment.Start(dies);
    segment.Run(3000);
    ASSERT_TRUE(segment.Together());
    EXPECT_EQ(segment.weights(dies), segment.weights(others[0]));
  }
  double sum = 0;
  for (const float weight : segment.weights(2)) sum += weight - 5.0f;
  EXPECT_EQ(sum, 600);
}

TEST_P(DeviceSegment, LeavesWithEverythingDelivered) {
  NetSegmentConfig config;
  config.exchange.codec = {Codec::kInt8};
  SegmentCluster segment(2, 4000, config);
  PutOnDevice(&segment, {0});
  segment.StartAll();
  for (int i = 0; i < 500; ++i) segment.Iterate(0, 0.3f);
  segment.net(0).state().RequestLeave();
  for (int i = 0; i < 4000 && !segment.net(0).state().left(); ++i) segment.Pass();
  EXPECT_TRUE(segment.net(0).state().delivered());
  EXPECT_EQ(segment.weights(1), segment.weights(0));
}

TEST_P(DeviceSegment, DoesAllThatOverUdp) {
  std::vector<std::unique_ptr<Transport>> group;
  try {
    UdpOptions options;
    options.max_frame_bytes = 1464;
    options.silence_ms = 1000 * Patience();
    group = ConnectUdpGroup(
        3, [](int) { return UdpSocket({.address = "127.0.0.1:0"}); }, options);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  SegmentCluster segment(3, 5000);
  PutOnDevice(&segment, {0, 2});
  segment.connect = [&](int node) { return std::move(group[node]); };
  segment.StartAll();
  ExpectSums(&segment, 3, Progress(&segment, 3, 5000, 1500));
  ExpectNothingRefused(&segment, 3);
}

// The memory of a frame is overwritten as soon as it is released, and kernels run as late as
// possible.
TEST_P(DeviceSegment, GivesReceivedFramesBackAfterTheKernelsThatReadThem) {
  for (const bool says_where : {true, false}) {
    SCOPED_TRACE(says_where);
    executors_.clear();
    queues_.clear();
    std::vector<FakeTransport*> nics(2);
    LoopbackHub hub({.queue_frames = 4096, .max_frame_bytes = 1024});
    SegmentCluster segment(2, 200'000);
    PutOnDevice(&segment, {0, 1});
    segment.connect = [&](int node) {
      auto nic = std::make_unique<FakeTransport>(
          hub.Connect(node), FakeTransportOptions{.buffers = 2048, .says_where = says_where});
      nics[node] = nic.get();
      return nic;
    };
    segment.StartAll();
    std::vector<double> sums(200'000);
    for (int i = 0; i < 400; ++i) {
      for (int node = 0; node < 2; ++node) {
        sums[static_cast<int64_t>(segment.made(node))] += 2;
        segment.Iterate(node, 2);
      }
      segment.Pass();
      EXPECT_EQ(nics[0]->lent() + nics[1]->lent(), 0u);  // at the end of a pass
    }
    segment.Run(3000);
    ExpectSums(&segment, 2, sums);
    ExpectNothingRefused(&segment, 2);
    for (const StreamExecutor* executor : executors_) {
      EXPECT_EQ(executor->copied_bytes() == 0, says_where);
    }
    EXPECT_GT(nics[0]->max_lent, 64u);  // more than one batch of frames
    // Frames are received while kernels process the frames before.
    for (const FakeQueue* queue : queues_) EXPECT_GT(queue->max_pending(), 1u);
  }
}

TEST_P(DeviceSegment, SamplesDivergenceWithoutReadingWeights) {
  SegmentCluster segment(2, 20000);
  PutOnDevice(&segment, {0, 1});
  segment.StartAll();
  for (int i = 0; i < 2000; ++i) segment.Pass();
  // Progress of node 0 that the other node has not received.
  for (int64_t i = 0; i < 20000; ++i) segment.Add(0, i, 0.5f);
  segment.Run(1100);
  const Divergence apart = segment.net(0).sampler().all();
  EXPECT_GT(apart.sampled, 0u);
  EXPECT_EQ(apart.distance_max, 0.5);
  segment.net(0).state().SetProgress(1);
  segment.Run(3000);
  EXPECT_EQ(segment.net(0).sampler().all().distance_max, 0);
  EXPECT_EQ(segment.weights(1), segment.weights(0));
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceSegment, testing::ValuesIn(DeviceKinds()),
                         [](const auto& info) { return info.param.name; });

// ---- Tests that need the emulated device ----

class FakeSegment : public DeviceSegment {};
INSTANTIATE_TEST_SUITE_P(Fake, FakeSegment, testing::Values(DeviceKind{"fake"}),
                         [](const auto& info) { return info.param.name; });

// Access to device memory by the processor must fail; the other tests rely on it.
TEST_P(FakeSegment, StraysOntoADeviceEndTheProgram) {
  Buffer memory(device_.memory(), 64);
  memory.get<float>();
  EXPECT_DEATH(
      {
        volatile float* const at = memory.get<float>();
        const float value = at[3];
        (void)value;
      },
      "");
}

TEST_P(FakeSegment, SendsPositionsFromADeviceThatTheNetworkReads) {
  for (const bool with_key : {false, true}) {
    SCOPED_TRACE(with_key);
    NetSegmentConfig config;
    if (with_key) config.filter.key = std::make_shared<const SecretKey>(sim::KeyOf('k'));
    std::vector<FakeTransport*> nics(2);
    LoopbackHub hub(LoopbackOptions{});
    SegmentCluster segment(2, 5000, config);
    PutOnDevice(&segment, {0, 1});
    segment.connect = [&](int node) {
      auto nic = std::make_unique<FakeTransport>(
          hub.Connect(node), FakeTransportOptions{.buffers = 2048, .reads = &device_});
      nics[node] = nic.get();
      return nic;
    };
    segment.StartAll();
    ExpectSums(&segment, 2, Progress(&segment, 2, 5000, 1000));
    ExpectNothingRefused(&segment, 2);
    // All positions and nothing else: diffs have a checksum, and frame tags need copies.
    const uint64_t positions =
        segment.net(0).metrics().exchange().sent[static_cast<size_t>(FrameType::kPosition)];
    EXPECT_GT(positions, 0u);
    EXPECT_EQ(nics[0]->from_device, with_key ? 0 : positions);
  }
}

TEST_P(FakeSegment, EndsWhileKernelsAreUnderWay) {
  SegmentCluster segment(2, 20000);
  PutOnDevice(&segment, {0, 1});
  segment.StartAll();
  segment.TakeTurns(20);
  segment.Kill(0);
  segment.Kill(1);
}

TEST_P(FakeSegment, SaysWhyItsDeviceHasFailed) {
  SegmentCluster segment(2, 3000);
  PutOnDevice(&segment, {1});
  segment.StartAll();
  segment.Iterate(0, 1);
  queues_[0]->Fail("it has fallen off the bus");
  const std::string said = ErrorOf([&] { segment.Run(100); });
  EXPECT_EQ(said, "fake device 0: it has fallen off the bus");
  segment.Kill(1);
  segment.Run(3000);  // the other node continues
  EXPECT_EQ(segment.net(0).state().members(), 1u);
}

TEST(ReplicaDevice, SaysWhatABuildOrAMachineLacks) {
  const std::string said = ErrorOf([] { DeviceReplica(DeviceType::kCuda, 99); });
  const bool built = DeviceRegistry::Get().FindDriver(DeviceType::kCuda) != nullptr;
  const std::string expected = built ? "cuda device 99 does not exist; "
                                     : "cuda device 99: its driver is in module cuda, which ";
  EXPECT_EQ(said.substr(0, expected.size()), expected);
}

}  // namespace
}  // namespace millrace::test
