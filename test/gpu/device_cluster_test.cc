// GPUs in a cluster: what a GPU adds reaches the other nodes, and what these add reaches the GPU.
#include <google/protobuf/text_format.h>

#include <array>
#include <cmath>
#include <ostream>

#include "millrace/cluster.h"
#include "millrace/session.h"
#include "test/gpu/gpu_support.h"
#include "test/gpu/listed_fakes.h"
#include "test/support/cluster_node.h"
#include "test/support/free_port.h"
#include "test/support/test_thread.h"
#include "test/train/train_support.h"
#include "transport/loopback/transport.h"
#include "weights/weight_reader.h"

namespace millrace::test {
namespace {

constexpr int64_t kSize = 10'000;

// A node with one segment of two nodes, which works on its weight buffer, or on `device`.
class Node {
 public:
  // All of its weights are `initial`.
  Node(NodeId id, LoopbackHub* hub, DeviceWeights* device = nullptr, float initial = 0,
       bool damping = false)
      : weights_(WeightBuffer::CreatePrivate(FlatLayout(kSize))), device_(device) {
    std::fill_n(weights_->data(), kSize, initial);
    if (device != nullptr) device->CopyFromHost(weights_->data());
    NetSegmentConfig config = EndConfig(id, 2, NewIncarnation());
    config.name = "lan";
    config.exchange.damping = damping;
    float* const weights = device != nullptr ? device->data() : weights_->data();
    const ReplicaDevice replica = device != nullptr
                                      ? ReplicaOn(device->device(), nullptr, &device->order())
                                      : HostReplica(&weights_->locks());
    std::vector<ClusterSegment> segments;
    segments.push_back(
        {.net = std::make_unique<NetSegment>(config, hub->Connect(id), weights, kSize, replica),
         .thread = {}});
    cluster_ =
        std::make_unique<Cluster>(std::move(segments), 0, &weights_->clock(), &clock_, &errors_);
  }

  void Link(const std::vector<DeviceWeights*>& devices) {
    links_ = std::make_unique<DeviceLinks>(DeviceLinksConfig{.host = weights_.get(),
                                                             .devices = devices,
                                                             .cluster = cluster_.get(),
                                                             .cluster_device = device_,
                                                             .clock = &clock_,
                                                             .sink = &errors_,
                                                             .registry = nullptr});
    ASSERT_TRUE(Await([&] { return links_->in_sync(); }));
  }
  // Ends the links and returns what the replica on which the segment works then holds.
  std::vector<float> Leave() {
    links_->Leave();
    EXPECT_TRUE(Await([&] { return links_->left(); }));
    links_->Stop();
    std::vector<float> values(kSize);
    if (device_ != nullptr) {
      WeightReader(device_).Copy(values.data());
    } else {
      WeightReader(weights_.get()).Copy(values.data());
    }
    return values;
  }

  WeightBuffer& weights() { return *weights_; }
  Cluster& cluster() { return *cluster_; }
  DeviceLinks& links() { return *links_; }
  bool Holds(float value) const {
    std::vector<float> weights(kSize);
    WeightReader(weights_.get()).Copy(weights.data());
    return weights == std::vector<float>(kSize, value);
  }

 private:
  const SteadyClock clock_;
  ErrorSink errors_{[] {}};
  const std::unique_ptr<WeightBuffer> weights_;
  DeviceWeights* const device_;  // null: the segment works on weights_
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<DeviceLinks> links_;
};

// Where the segments of the nodes a and b work.
enum class Memory { kHosts, kDeviceAndHost, kDevices };

struct Case {
  FakeMode mode;
  Memory memory;
};
void PrintTo(const Case& each, std::ostream* out) {
  const char* const memories[] = {"Hosts", "DeviceAndHost", "Devices"};
  *out << ModeName(each.mode) << memories[static_cast<int>(each.memory)];
}

class GpuCluster : public testing::TestWithParam<Case> {
 protected:
  GpuCluster() {
    for (int i = 0; i < 3; ++i) {
      devices_.push_back(
          std::make_unique<FakeDevice>(FakeDeviceOptions{.mode = GetParam().mode, .ordinal = i}));
      replicas_.push_back(std::make_unique<DeviceWeights>(devices_.back().get(), kSize));
    }
  }
  // The weights on which the segments of the nodes work; null: the host's.
  DeviceWeights* OfA() {
    return GetParam().memory == Memory::kHosts ? nullptr : replicas_[1].get();
  }
  DeviceWeights* OfB() {
    return GetParam().memory == Memory::kDevices ? replicas_[2].get() : nullptr;
  }
  DeviceWeights* gpu(int i) { return replicas_[i].get(); }
  std::vector<float> Values(int i) {
    std::vector<float> copy(kSize);
    WeightReader(gpu(i)).Copy(copy.data());
    return copy;
  }

 private:
  std::vector<std::unique_ptr<FakeDevice>> devices_;
  std::vector<std::unique_ptr<DeviceWeights>> replicas_;
};

INSTANTIATE_TEST_SUITE_P(Replicas, GpuCluster,
                         testing::Values(Case{FakeMode::kAtOnce, Memory::kHosts},
                                         Case{FakeMode::kAtOnce, Memory::kDeviceAndHost},
                                         Case{FakeMode::kLate, Memory::kDevices},
                                         Case{FakeMode::kThread, Memory::kDevices}),
                         testing::PrintToStringParamName());

TEST_P(GpuCluster, CarriesProgressBetweenTheGpusOfItsNodes) {
  LoopbackHub hub({.nodes = 2});
  Node a(0, &hub, OfA()), b(1, &hub, OfB());
  ASSERT_TRUE(Await([&] { return a.cluster().begun() && b.cluster().begun(); }));
  a.Link({gpu(0), gpu(1)});
  b.Link({gpu(2)});
  float sum = 0;
  const auto everywhere = [&] {
    const std::vector<float> expected(kSize, sum);
    return a.Holds(sum) && b.Holds(sum) && Values(0) == expected && Values(1) == expected &&
           Values(2) == expected;
  };
  // One replica after the other makes progress, with rests in which nobody reports any: then only
  // the merges of one segment say that another has something to pass on.
  float step = 1;
  for (int i = 0; i < 3; ++i, step *= 4) {
    Node& node = i < 2 ? a : b;
    AddingSolver solver(std::make_unique<DeviceStrategy>(gpu(i), &node.weights().clock()), kSize,
                        step);
    solver.Iterate(2);
    solver.Finish();
    sum += 2 * step;
    EXPECT_TRUE(Await(everywhere)) << i;
  }
  for (Node* node : {&a, &b}) {
    AddingSolver host(std::make_unique<HogwildStrategy>(&node->weights()), kSize, step);
    host.Iterate(3);
    sum += 3 * step;
    EXPECT_TRUE(Await(everywhere));
    step *= 4;
  }
  for (Node* node : {&a, &b}) {  // counts travel apart from diffs
    EXPECT_TRUE(Await([&] { return node->weights().clock().global() == 12; }));
  }
  for (Node* node : {&a, &b}) EXPECT_EQ(node->Leave(), std::vector<float>(kSize, sum));
}

// A node that joins a run: its own weights are of no account, and its solvers begin with the run's.
TEST_P(GpuCluster, BeginsWithTheWeightsOfTheRun) {
  LoopbackHub hub({.nodes = 2});
  Node b(1, &hub, OfB(), 7);
  ASSERT_TRUE(Await([&] { return b.cluster().begun(); }));
  Node a(0, &hub, OfA(), 1);
  ASSERT_TRUE(Await([&] { return a.cluster().begun(); }));
  a.Link({gpu(0), gpu(1)});
  const std::vector<float> expected(kSize, 7);
  EXPECT_EQ(Values(0), expected);
  EXPECT_EQ(Values(1), expected);
  EXPECT_TRUE(a.Holds(7));
  b.Link({gpu(2)});
  EXPECT_EQ(Values(2), expected);
  EXPECT_TRUE(b.Holds(7));
}

// The last additions of all solvers of a node reach the replica on which its segment works, however
// many replicas are between.
TEST_P(GpuCluster, EndsWithAllProgressWhereTheSegmentWorks) {
  for (const bool damping : {false, true}) {
    LoopbackHub hub({.nodes = 2});
    Node node(0, &hub, OfA(), 0, damping);
    ASSERT_TRUE(Await([&] { return node.cluster().begun(); }));
    node.Link({gpu(0), gpu(1)});
    std::vector<std::unique_ptr<AddingSolver>> solvers;
    for (int i = 0; i < 2; ++i) {
      solvers.push_back(std::make_unique<AddingSolver>(
          std::make_unique<DeviceStrategy>(gpu(i), &node.weights().clock()), kSize, 1));
    }
    solvers.push_back(std::make_unique<AddingSolver>(
        std::make_unique<HogwildStrategy>(&node.weights()), kSize, 1));
    for (auto& solver : solvers) solver->Iterate(5);
    for (auto& solver : solvers) solver->Finish();
    EXPECT_EQ(node.Leave(), std::vector<float>(kSize, 15)) << damping;
  }
}

// Whole runs of two nodes on one machine, each with a solver on a GPU.
class GpuClusterRun : public OnChosenDevice {
 protected:
  // The topology's file: node a keeps its weights in `a`, node b in `b`.
  std::string Topology(const std::string& a, const std::string& b) {
    const std::string path = work_ / "topology.prototxt";
    WriteFile(path, StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' memory: '", a,
                           "' }\n node { name: 'b' address: '127.0.0.2' memory: '", b,
                           "' } segment { name: 's' transport: 'udp' port: ", FreePort(), " }"));
    return path;
  }
  // Trains both nodes at the same time with `options` each.
  std::vector<Outcome> Train(const caffe::SolverParameter& solver,
                             const std::vector<TrainOptions>& options) {
    std::vector<Outcome> outcomes(options.size());
    std::vector<TestThread> threads;
    for (size_t i = 0; i < options.size(); ++i) {
      threads.emplace_back(
          [&, i] { outcomes[i] = RunNamed(work_, options[i].node, solver, options[i]); });
    }
    threads.clear();  // waits for them
    return outcomes;
  }
  TrainOptions NodeOptions(const std::string& topology, const std::string& node,
                           std::vector<Device*> gpus, int cpus) {
    TrainOptions options;
    options.topology = topology;
    options.node = node;
    options.gpus = std::move(gpus);
    options.solvers = cpus;
    return options;
  }
  static std::string MemoryOf(const Device& device) {
    return StrCat(DeviceTypeName(device.type()), ":", device.ordinal());
  }
  void SetUp() override {
    OnChosenDevice::SetUp();
    if (is_fake()) ListedFakes::Set({&first(), &second()});
  }
  void TearDown() override { ListedFakes::Set({}); }

  Workspace work_;
};

INSTANTIATE_TEST_SUITE_P(Modes, GpuClusterRun, testing::ValuesIn(DeviceChoices()),
                         DeviceChoiceName);

// On a machine with one GPU both nodes train on it.
TEST_P(GpuClusterRun, LearnsWithSegmentsOnTheMemoryOfGpus) {
  Device& other = this->other();
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(400), 200);
  solver.set_snapshot(150);
  const std::string topology = Topology(MemoryOf(first()), MemoryOf(other));
  const std::vector<Outcome> outcomes = Train(
      solver, {NodeOptions(topology, "a", {&first()}, 0), NodeOptions(topology, "b", {&other}, 1)});
  std::string models;
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.result.iteration, 400);
    EXPECT_EQ(outcome.result.failure, "");
    EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9);
    EXPECT_EQ(outcome.FinalOutput("accuracy"), outcomes[0].FinalOutput("accuracy"));
    models += outcome.result.model;
  }
  for (const float weight : WeightsOf(LoadModel(models))) ASSERT_TRUE(std::isfinite(weight));
}

// One node trains, with its weights in a GPU's memory; the other, on processors, has the same.
TEST_P(GpuClusterRun, SavesWhatTheGpuHas) {
  const std::string topology = Topology(MemoryOf(first()), "host");
  TrainOptions b = NodeOptions(topology, "b", {}, 1);
  const std::vector<Outcome> outcomes =
      Train(Workspace::Solver(200), {NodeOptions(topology, "a", {&first()}, 1), b});
  EXPECT_EQ(outcomes[0].result.failure, "");
  EXPECT_EQ(outcomes[1].result.failure, "");
  EXPECT_EQ(std::min(outcomes[0].result.model.size(), outcomes[1].result.model.size()), 0u);
}

// The link is so slow that the host's replica has hardly learned anything.
TEST_P(GpuClusterRun, AloneStopsAndSavesWhatTheGpuHas) {
  const std::string topology = Topology(MemoryOf(first()), "host");
  RequestedCommands commands;
  TrainOptions options = NodeOptions(topology, "a", {&first()}, 0);
  options.gpu_max_mbps = 0.1;
  options.control = &commands;
  options.shard_count = 1;  // all of the data
  AtIteration stopper(150, [&] { commands.Stop(); });
  options.observer = &stopper;
  const Outcome outcome = RunNamed(work_, "a", Workspace::Solver(1'000'000), options);
  EXPECT_TRUE(outcome.result.stopped_early);
  TrainOptions rest;
  rest.weights = {outcome.result.model};
  const Outcome tested = RunNamed(work_, "rest", Workspace::Tested(Workspace::Solver(0), 1), rest);
  EXPECT_GE(tested.FinalOutput("accuracy"), 0.9);
}

// The segments stand still with the device. The other node completes the run.
TEST_P(GpuClusterRun, EndsWhenTheGpuFails) {
  if (!is_fake()) GTEST_SKIP() << "only a fake device fails when the test says so";
  const std::string topology = Topology(MemoryOf(first()), "host");
  AtIteration breaker(100, [&] {
    static_cast<FakeDevice&>(first()).queues()[0]->Fail("it has fallen off the bus");
  });
  TrainOptions options = NodeOptions(topology, "a", {&first()}, 1);
  options.observer = &breaker;
  std::string error;
  std::thread a(
      [&] { error = ErrorOf([&] { RunNamed(work_, "a", Workspace::Solver(2000), options); }); });
  const Outcome outcome =
      RunNamed(work_, "b", Workspace::Solver(2000), NodeOptions(topology, "b", {}, 1));
  a.join();
  EXPECT_EQ(error, "fake device 0: it has fallen off the bus");
  EXPECT_EQ(outcome.result.failure, "");
  EXPECT_EQ(outcome.result.iteration, 2000);
  EXPECT_NE(outcome.result.model, "");
}

TEST_P(GpuClusterRun, NeedsASolverWhereTheWeightsAre) {
  if (!is_fake()) GTEST_SKIP() << "the lines are the same on each device";
  const std::string topology = Topology(MemoryOf(first()), "host");
  const std::string field =
      StrCat(topology, ":1: node[0].memory: \"", MemoryOf(first()), "\" given, ");
  const auto error = [&](const std::string& strategy, const TrainOptions& options) {
    caffe::SolverParameter solver = Workspace::Solver(10);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(strategy, solver.mutable_strategy()));
    return ErrorOf([&] { RunNamed(work_, "a", solver, options); });
  };
  EXPECT_EQ(error("type: 'hogwild'", NodeOptions(topology, "a", {&second()}, 0)),
            field + "but no solver of this run is there: expected host, or --gpu=0");
  EXPECT_EQ(error("type: 'local' sync_condition { type: 'steps' param { key: 'every' value: 3 } }",
                  NodeOptions(topology, "a", {&first()}, 0)),
            field +
                "but the strategy local merges the weights of solvers in host memory: "
                "expected host");
  TrainOptions shared = NodeOptions(topology, "a", {&first()}, 0);
  shared.shm = "millrace-test";
  EXPECT_EQ(error("type: 'hogwild'", shared),
            field +
                "but the processes of --shm=millrace-test share weights in host memory: "
                "expected host");
  // A program with a loop of its own.
  const std::string host =
      field + "but the weights of this program are in host memory: expected host";
  SessionOptions session;
  session.topology = topology;
  session.node = "a";
  EXPECT_EQ(ErrorOf([&] { Session::Open(work_.Write("session", Workspace::Solver(10)), session); }),
            host);
  alignas(64) std::array<float, 16> weights{};
  EXPECT_EQ(ErrorOf([&] { ClusterMember({.topology = topology, .node = "a"}, weights); }), host);
}

}  // namespace
}  // namespace millrace::test
