// Which weights a clustered node evaluates and saves.
#include "cluster/merged_weights.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <optional>

#include "segment/replica_device.h"
#include "strategy/hogwild.h"
#include "test/sim/fake_peers.h"
#include "test/support/cluster_node.h"
#include "test/support/eventually.h"
#include "test/train/train_support.h"
#include "train/evaluation/distributed_evaluation.h"
#include "train/solver_worker.h"
#include "transport/loopback/transport.h"

namespace millrace::test {
namespace {

// One of two nodes, with the weights of a net.
struct TrainingNode {
  TrainingNode(LoopbackHub* hub, uint16_t node, const BuiltNet& net, const float* fill,
               const CoalescingLimits& coalescing)
      : weights(WeightBuffer::CreatePrivate(net.layout())) {
    std::copy_n(fill, weights->size(), weights->data());
    NetSegmentConfig config = EndConfig(node, 2, NewIncarnation());
    config.name = "s";
    config.chunk_floats = 16;
    config.leader = 1;
    config.exchange.bootstrap_after_ns = node == 0 ? 50'000'000 : -1;
    config.exchange.peer_timeout_ns = 3600'000'000'000;
    std::vector<ClusterSegment> segments;
    segments.push_back(
        {std::make_unique<NetSegment>(config, hub->Connect(node), weights->data(), weights->size(),
                                      HostReplica(&weights->locks())),
         {.coalescing = coalescing}});
    cluster = std::make_unique<Cluster>(std::move(segments), 0, &weights->clock(), &time, &sink);
  }

  SteadyClock time;
  ErrorSink sink;
  std::unique_ptr<WeightBuffer> weights;
  std::unique_ptr<Cluster> cluster;
};

// Node b leads, and has progress that node a does not have.
class MergedWeightsTest : public testing::Test {
 protected:
  // `coalescing`: of b's segment, which serves requests once in that time.
  explicit MergedWeightsTest(const CoalescingLimits& coalescing = {}) {
    caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(2), 100);
    solver.set_base_lr(0);
    solver.set_snapshot(1);
    options_.solver_file = work_.Write("b", solver);
    config_ = LoadSolverConfig(options_.solver_file);
    net_ = std::make_unique<BuiltNet>(config_.train.param, config_.train.source,
                                      TrainNetOptions(config_, &data_));
    fill_ = WeightBuffer::CreatePrivate(net_->layout());
    net_->BindWeights(fill_->data());
    net_->FillWeights();
    a_ = std::make_unique<TrainingNode>(&hub_, 0, *net_, fill_->data(), CoalescingLimits());
    EXPECT_TRUE(Eventually([&] { return a_->cluster->begun(); }));
    b_ = std::make_unique<TrainingNode>(&hub_, 1, *net_, fill_->data(), coalescing);
    EXPECT_TRUE(Eventually([&] { return b_->cluster->begun() && b_->cluster->is_leader(); }));
    EXPECT_TRUE(Eventually([&] { return a_->cluster->in_sync() && a_->cluster->members() == 2; }));
    // A node at rest has taken over its chunks, and all members have their newest positions. Nobody
    // writes the tables then, so that this thread may read them.
    EXPECT_TRUE(Eventually([&] { return StateOf(*b_).settled() && StateOf(*a_).settled(); }));
    // Chunks that b masters count as merged.
    const auto size = static_cast<size_t>(b_->weights->size());
    const std::vector<Chunk>&chunks = ChunksOf(*b_), &others = ChunksOf(*a_);
    for (size_t i = 0; i < chunks.size(); ++i) {
      EXPECT_NE(chunks[i].state == ChunkState::kMaster, others[i].state == ChunkState::kMaster);
      EXPECT_EQ(chunks[i].number, others[i].number);
    }
    expected_ = WeightBuffer::CreatePrivate(net_->layout());
    int own = 0;
    for (size_t i = 0; i < size; ++i) {
      const float progress = static_cast<float>(i % 5) - 2.0f;
      const bool masters = chunks[i / 16].state == ChunkState::kMaster;
      own += masters;
      expected_->data()[i] = fill_->data()[i] + (masters ? progress : 0);
      b_->weights->data()[i] += progress;
    }
    EXPECT_GT(own, 0);
    EXPECT_LT(own, static_cast<int>(size));
    merged_ = std::make_unique<MergedWeights>(b_->cluster.get(), b_->weights.get(), net_->layout());
    reporter_ = std::make_unique<Reporter>(config_, options_, time_, std::vector<MetricsSink*>{});
    reporter_->Start("net", 0, 8);
  }

  static const SegmentState& StateOf(const TrainingNode& node) {
    return node.cluster->segments()[0].net->state();
  }
  static const std::vector<Chunk>& ChunksOf(const TrainingNode& node) {
    return node.cluster->segments()[0].net->exchange().table().chunks;
  }
  std::unique_ptr<Tester> MakeTester(float* weights) {
    test_data_.push_back(std::make_unique<DataService>(DataOptions{.seed = 7}));
    return std::make_unique<Tester>(config_, net_->layout(), weights, test_data_.back().get(),
                                    reporter_.get());
  }
  double LossOn(float* weights) {
    return MakeTester(weights)->Run(100, [] { return false; }).at(0).loss;
  }
  std::unique_ptr<Tester> MergedTester() {
    auto tester = MakeTester(b_->weights->data());
    tester->BindWeights(merged_->data(), [this](const auto& stop) { merged_->Read(stop); });
    return tester;
  }

  // What a solver of node b shares with its run.
  SharedRun RunOfB(Tester* tester, SnapshotCollector* snapshots, SnapshotWriter* writer) {
    policy_.emplace(config_.param);
    return {.config = config_,
            .policy = *policy_,
            .weights = *b_->weights,
            .data = data_,
            .reporter = *reporter_,
            .tester = *tester,
            .snapshots = *snapshots,
            .writer = *writer,
            .clock = time_,
            .stop = stop_,
            .requests = requests_,
            .make_strategy =
                [this](int) { return std::make_unique<HogwildStrategy>(b_->weights.get()); },
            .make_net =
                [this](Device* device, int index) {
                  return std::make_unique<BuiltNet>(
                      config_.train.param, config_.train.source,
                      TrainNetOptions(config_, &data_, device, index));
                },
            .cluster = b_->cluster.get(),
            .merged = merged_.get()};
  }

  Workspace work_;
  TrainOptions options_;
  SolverConfig config_;
  SteadyClock time_;
  LoopbackHub hub_{LoopbackOptions{.nodes = 2}};
  DataService data_{DataOptions{}};
  std::vector<std::unique_ptr<DataService>> test_data_;
  std::unique_ptr<BuiltNet> net_;
  std::unique_ptr<WeightBuffer> fill_, expected_;
  std::unique_ptr<TrainingNode> a_, b_;
  std::unique_ptr<MergedWeights> merged_;
  std::unique_ptr<Reporter> reporter_;
  std::optional<LrPolicy> policy_;
  std::atomic<bool> stop_{false};
  RunRequests requests_;
};

TEST_F(MergedWeightsTest, AreTestedInsteadOfTheNodesOwn) {
  const double expected = LossOn(expected_->data()), live = LossOn(b_->weights->data());
  ASSERT_NE(expected, live);
  const auto tester = MergedTester();
  EXPECT_EQ(tester->Run(100, [] { return false; }).at(0).loss, expected);
  ASSERT_TRUE(tester->last());
  EXPECT_EQ(tester->last()->iteration, 100);
  // The last test of a run uses weights passed to it, which nothing refreshes.
  tester->BindWeights(b_->weights->data());
  merged_->data()[0] = -77;
  EXPECT_NE(tester->Run(200, [] { return false; }).at(0).loss, expected);
  EXPECT_EQ(merged_->data()[0], -77);
}

// This also holds for a range that no other node evaluated and that is evaluated later.
TEST_F(MergedWeightsTest, AreThoseOfTheBeginningOfASharedTest) {
  const double expected = LossOn(expected_->data());
  const auto tester = MergedTester();
  GossipMessage own, other{0, 1, 1, {}};
  TestPeers peers{.self = 1,
                  .publish =
                      [&](auto bytes) {
                        own = {1, 1, 1, {bytes.begin(), bytes.end()}};
                      },
                  .read =
                      [&] {
                        return std::vector<GossipMessage>{other, own};
                      },
                  .is_leader = [] { return true; },
                  .alone = [] { return false; }};
  DistributedEvaluation evaluation(tester.get(), peers, &time_, [] { return false; });
  TestShare there;
  there.set_test(tester->NumberOf(0));
  const std::string text = there.SerializeAsString();
  const auto bytes = std::as_bytes(std::span(text));
  other.bytes = {bytes.begin(), bytes.end()};
  evaluation.Begin(100);
  EXPECT_FALSE(tester->last());  // the other node's share is missing
  for (int64_t i = 0; i < b_->weights->size(); ++i) b_->weights->data()[i] += 3;
  evaluation.Close();
  ASSERT_TRUE(tester->last());
  EXPECT_NEAR(tester->last()->nets.at(0).loss, expected, 1e-6);
}

// A segment whose thread serves a request after 50 ms at most; the reader looks after 10.
class SlowMergedWeightsTest : public MergedWeightsTest {
 protected:
  SlowMergedWeightsTest() : MergedWeightsTest({50'000'000, 50'000'000}) {}
};

TEST_F(SlowMergedWeightsTest, AreNotUsedWhereTheReadWasCutShort) {
  bool used = false;
  ASSERT_TRUE(Eventually([&] {
    used = false;
    return !merged_->Read([] { return true; }, [&] { used = true; });
  }));
  EXPECT_FALSE(used);
  EXPECT_TRUE(merged_->Read([] { return false; }, [&] { used = true; }));
  EXPECT_TRUE(used);
  for (int64_t i = 0; i < expected_->size(); ++i) {
    ASSERT_NEAR(merged_->data()[i], expected_->data()[i], 1e-5) << i;
  }
}

// The run ends in the iteration at which the snapshot is due. Whether the weights were read before
// depends on the time; the node's own progress must not be saved in either case.
TEST_F(SlowMergedWeightsTest, AreSavedCompletelyOrNotAtAll) {
  const auto tester = MergedTester();
  SnapshotCollector snapshots(1);
  bool written = false;
  SnapshotWriter writer(work_ / "b", "b", &time_,
                        [&](int64_t, const std::string&) { written = true; });
  sim::FakePeers peers(1);
  peers.on_is_leader = [] { return true; };
  SnapshotDuty duty(&peers, &time_);
  caffe::SolverParameter first;
  caffe::PartParameter& limit = *first.add_stop_condition();
  limit.set_type("iterations");
  (*limit.mutable_param())["most"] = 1;
  StopConditions stop_conditions(first, &time_);
  SharedRun run = RunOfB(tester.get(), &snapshots, &writer);
  run.duty = &duty;
  run.stop_conditions = &stop_conditions;
  SolverWorker worker(0, run);
  worker.Run();
  EXPECT_TRUE(stop_);
  EXPECT_EQ(duty.due(), written ? 0 : 1);
  const std::string model = work_.Snapshot("b", 1) + ".caffemodel";
  ASSERT_EQ(FileExists(model), written);
  if (!written) return;
  net_->BindWeights(expected_->data());
  caffe::NetParameter merged;
  net_->ToProto(&merged, false);
  const std::vector<float> saved = WeightsOf(work_, "b", 1), expected = WeightsOf(merged);
  for (size_t i = 0; i < saved.size(); ++i) ASSERT_NEAR(saved[i], expected[i], 1e-5) << i;
}

// Diffs that an unresponsive master has not acknowledged are not part of the saved weights.
TEST_F(MergedWeightsTest, AreSavedInsteadOfTheNodesOwn) {
  a_.reset();
  const auto tester = MergedTester();
  SnapshotCollector snapshots(1);
  SnapshotWriter writer(work_ / "b", "b", &time_, [](int64_t, const std::string&) {});
  const SharedRun run = RunOfB(tester.get(), &snapshots, &writer);
  SolverWorker worker(0, run);
  worker.Run();
  const std::vector<float> saved = WeightsOf(work_, "b", 1);
  net_->BindWeights(expected_->data());
  caffe::NetParameter model;
  net_->ToProto(&model, false);
  const std::vector<float> expected = WeightsOf(model);
  ASSERT_EQ(saved.size(), expected.size());
  for (size_t i = 0; i < saved.size(); ++i) ASSERT_NEAR(saved[i], expected[i], 1e-5) << i;
  // The solver itself continues with all of its weights.
  net_->BindWeights(b_->weights->data());
  net_->ToProto(&model, false);
  EXPECT_NE(WeightsOf(model), saved);
}

}  // namespace
}  // namespace millrace::test
