#include "train/evaluation/distributed_evaluation.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "base/node_bits.h"
#include "test/sim/fake_peers.h"
#include "test/sim/gossip_board.h"
#include "test/support/fake_clock.h"
#include "test/support/problem.h"
#include "test/support/support.h"
#include "train/run_finalizer.h"
#include "weights/weight_buffer.h"

namespace millrace::test {
namespace {

constexpr int kInterval = 100, kBatches = 7;

TestShare ShareWith(int64_t test, std::vector<BatchRange> nets) {
  TestShare share;
  share.set_test(test);
  for (const BatchRange& range : nets) {
    TestNetSums* net = share.add_net();
    net->set_first(range.first);
    net->set_batches(range.count);
    net->set_loss(range.count);
    net->add_output(10.0 * range.count);
  }
  return share;
}

TEST(EvaluationShards, CoverAllBatchesEvenly) {
  for (int batches : {0, 1, 7, 100}) {
    for (size_t n : {1u, 2u, 3u, 8u}) {
      int end = 0;
      for (size_t k = 0; k < n; ++k) {
        const BatchRange share = ShareOf(k, n, batches);
        EXPECT_EQ(share.first, end);
        EXPECT_GE(share.count, batches / static_cast<int>(n));
        EXPECT_LE(share.count, batches / static_cast<int>(n) + 1);
        end += share.count;
      }
      EXPECT_EQ(end, batches);
    }
  }
}

TEST(EvaluationShards, AreOfThoseWhoTookPartLately) {
  const EvaluationShards shares = {
      {0, ShareWith(5, {})}, {2, ShareWith(2, {})}, {3, ShareWith(3, {})}};
  EXPECT_EQ(Participants(shares, 1, 5), (std::vector<NodeId>{0, 1, 3}));
  EXPECT_EQ(Participants(shares, 2, 9), (std::vector<NodeId>{2}));
  EXPECT_TRUE(AllDone(shares, {0}, 5));
  EXPECT_FALSE(AllDone(shares, {0, 3}, 5));
  EXPECT_FALSE(AllDone(shares, {0, 7}, 5));
}

TEST(EvaluationShards, AreCombinedWithoutCountingABatchTwice) {
  const EvaluationShards shares = {
      {0, ShareWith(4, {{0, 3}})},  {1, ShareWith(4, {{2, 4}})},  // overlaps
      {2, ShareWith(4, {{5, 2}})},  {3, ShareWith(3, {{3, 2}})},  // of a different test
      {4, ShareWith(4, {{8, 5}})},                                // past the end
      {5, ShareWith(4, {{-1, 3}})},                               // invalid range
      {6, ShareWith(4, {})}};
  const Gathered gathered = Gather(shares, 4, 0, 10, 1);
  EXPECT_EQ(gathered.sums.batches, 5);
  EXPECT_EQ(gathered.sums.outputs[0], 50);
  EXPECT_EQ(gathered.missing, (std::vector<BatchRange>{{3, 2}, {7, 3}}));
  EXPECT_EQ(Gather(shares, 4, 0, 10, 2).missing, (std::vector<BatchRange>{{0, 10}}));
  EXPECT_EQ(Gather(shares, 4, 1, 10, 1).missing, (std::vector<BatchRange>{{0, 10}}));
}

TEST(EvaluationShards, SkipWhatIsNoShare) {
  const std::string good = ShareWith(4, {{0, 3}}).SerializeAsString();
  const auto gossip = [](NodeId node, const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return GossipMessage{node, 1, 1, {bytes.begin(), bytes.end()}};
  };
  const EvaluationShards shares = ReadShares({gossip(0, good), gossip(1, good.substr(0, 7))});
  EXPECT_EQ(shares.size(), 1u);
}

// Nodes that evaluate the same weights together; gossip between them is immediate.
class DistributedEvaluations : public testing::Test {
 protected:
  struct Node {
    Node(DistributedEvaluations* all, NodeId id) {
      static int made = 0;
      const std::string name = StrCat("node", id, "_", made++);
      data = std::make_unique<DataService>(DataOptions{.seed = 7});
      options.metrics = all->work_ / (name + ".jsonl");
      metrics = std::make_unique<MetricsWriter>(options.metrics);
      reporter = std::make_unique<Reporter>(all->config_, options, all->clock_,
                                            std::vector<MetricsSink*>{metrics.get()});
      reporter->Start("net", 0, 1);
      tester = std::make_unique<Tester>(all->config_, all->net_->layout(), all->weights_->data(),
                                        data.get(), reporter.get());
      TestPeers peers;
      peers.self = id;
      peers.publish = all->gossip_.Publisher(id);
      peers.read = all->gossip_.Reader(id);
      peers.is_leader = [=] { return id == all->leader_; };
      peers.alone = [=] { return all->alone_; };
      evaluation = std::make_unique<DistributedEvaluation>(tester.get(), peers, &all->clock_,
                                                           [] { return false; });
    }
    // Logged evaluations: iteration and outputs.
    std::vector<std::map<std::string, double>> Logged() const {
      std::vector<std::map<std::string, double>> logged;
      for (const MetricsRow& row : ReadMetrics(options.metrics)) {
        if (!row.has_test()) continue;
        std::map<std::string, double> outputs(row.test().outputs().begin(),
                                              row.test().outputs().end());
        outputs["iteration"] = row.iter();
        logged.push_back(outputs);
      }
      return logged;
    }

    TrainOptions options;
    std::unique_ptr<DataService> data;
    std::unique_ptr<MetricsWriter> metrics;
    std::unique_ptr<Reporter> reporter;
    std::unique_ptr<Tester> tester;
    std::unique_ptr<DistributedEvaluation> evaluation;
  };

  DistributedEvaluations() {
    caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(1000), kInterval);
    solver.set_test_iter(0, kBatches);
    config_ = LoadSolverConfig(work_.Write("solver", solver));
    data_ = std::make_unique<DataService>(DataOptions{.seed = 7});
    BuiltNetOptions options;
    options.state = config_.train.state;
    options.seed = 7;
    options.data = data_.get();
    net_ = std::make_unique<BuiltNet>(config_.train.param, config_.train.source, options);
    weights_ = WeightBuffer::CreatePrivate(net_->layout());
    net_->BindWeights(weights_->data());
    net_->FillWeights();
  }
  void Make(size_t nodes) {
    for (size_t i = 0; i < nodes; ++i) {
      nodes_.push_back(std::make_unique<Node>(this, static_cast<NodeId>(i)));
      nodes_.back()->evaluation->Join(0);
    }
  }
  // Result of a single node for the test at `iteration`, after it has run all earlier tests and
  // consumed their batches.
  std::map<std::string, double> Whole(int64_t iteration) {
    Node alone(this, 99);
    std::map<std::string, double> outputs;
    for (int64_t i = 0; i <= iteration; i += kInterval) {
      const auto all = alone.tester->Run(i, [] { return false; });
      outputs.clear();
      for (const OutputMean& output : all.at(0).outputs) outputs[output.name] = output.mean;
    }
    outputs["iteration"] = static_cast<double>(iteration);
    return outputs;
  }
  static void ExpectSame(const std::map<std::string, double>& is,
                         const std::map<std::string, double>& expected) {
    ASSERT_EQ(is.size(), expected.size());
    for (const auto& [name, value] : expected) EXPECT_NEAR(is.at(name), value, 1e-12) << name;
  }

  Workspace work_;
  SolverConfig config_;
  FakeClock clock_;
  std::unique_ptr<DataService> data_;
  std::unique_ptr<BuiltNet> net_;
  std::unique_ptr<WeightBuffer> weights_;
  sim::GossipBoard gossip_;
  NodeId leader_ = 0;
  bool alone_ = false;
  std::vector<std::unique_ptr<Node>> nodes_;
};

TEST_F(DistributedEvaluations, SayWhatOneNodeWouldHaveSaidOnce) {
  for (size_t nodes : {1u, 2u, 3u}) {
    gossip_.Clear();
    nodes_.clear();
    Make(nodes);
    for (int64_t iteration : {0, 100, 200}) {
      for (auto& node : nodes_) node->evaluation->Begin(iteration);
      for (auto& node : nodes_) node->evaluation->Poll();
    }
    const auto logged = nodes_[0]->Logged();
    ASSERT_EQ(logged.size(), 3u);
    for (int i = 0; i < 3; ++i) ExpectSame(logged[i], Whole(i * kInterval));
    for (size_t i = 1; i < nodes; ++i) EXPECT_TRUE(nodes_[i]->Logged().empty());
  }
}

TEST_F(DistributedEvaluations, WaitForPartsOnlySoLong) {
  Make(3);
  for (auto& node : nodes_) node->evaluation->Begin(0);
  nodes_[0]->evaluation->Poll();
  ASSERT_EQ(nodes_[0]->Logged().size(), 1u);
  for (size_t i : {0, 1}) nodes_[i]->evaluation->Begin(100);  // the third node is dead
  for (int i = 0; i < 10; ++i) nodes_[0]->evaluation->Poll();
  EXPECT_EQ(nodes_[0]->Logged().size(), 1u);
  clock_.AdvanceNs(DistributedEvaluation::kTimeoutNs);
  nodes_[0]->evaluation->Poll();
  ASSERT_EQ(nodes_[0]->Logged().size(), 2u);
  ExpectSame(nodes_[0]->Logged()[1], Whole(100));
  // The next scheduled test also ends the wait.
  for (size_t i : {0, 1}) nodes_[i]->evaluation->Begin(200);
  nodes_[0]->evaluation->Begin(300);
  ASSERT_EQ(nodes_[0]->Logged().size(), 3u);
  ExpectSame(nodes_[0]->Logged()[2], Whole(200));
  // From now on the leader does not wait for the third node.
  nodes_[1]->evaluation->Begin(300);
  nodes_[0]->evaluation->Poll();
  ASSERT_EQ(nodes_[0]->Logged().size(), 4u);
  ExpectSame(nodes_[0]->Logged()[3], Whole(300));
}

TEST_F(DistributedEvaluations, AreLoggedByWhoLedWhenTheyBegan) {
  leader_ = 1;
  Make(2);
  nodes_[1]->evaluation->Begin(100);
  leader_ = 0;  // node 0 has joined, and participates from the next test on
  nodes_[0]->evaluation->Begin(200);
  nodes_[1]->evaluation->Begin(200);
  nodes_[0]->evaluation->Poll();
  ASSERT_EQ(nodes_[1]->Logged().size(), 1u);
  ExpectSame(nodes_[1]->Logged()[0], Whole(100));
  ASSERT_EQ(nodes_[0]->Logged().size(), 1u);
  ExpectSame(nodes_[0]->Logged()[0], Whole(200));
}

TEST_F(DistributedEvaluations, GoOnWhereTheLeaderDies) {
  Make(2);
  nodes_[1]->evaluation->Begin(0);
  nodes_[1]->evaluation->Poll();
  EXPECT_TRUE(nodes_[1]->Logged().empty());
  leader_ = 1;
  alone_ = true;
  nodes_[1]->evaluation->Poll();
  ASSERT_EQ(nodes_[1]->Logged().size(), 1u);
  ExpectSame(nodes_[1]->Logged()[0], Whole(0));
}

TEST_F(DistributedEvaluations, EndWithTheResultsOfTheLast) {
  Make(2);
  for (auto& node : nodes_) node->evaluation->Begin(500);
  const auto results = nodes_[0]->evaluation->Finish();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].batches, kBatches);
  ExpectSame(nodes_[0]->Logged().at(0), Whole(500));
  EXPECT_TRUE(nodes_[0]->evaluation->Finish().empty());
}

TEST_F(DistributedEvaluations, EndWithATestOfTheLeadersWeights) {
  Make(3);
  nodes_[0]->evaluation->BeginFinalTest(500, 77, {0, 1, 2});
  nodes_[1]->evaluation->BeginFinalTest(500, 77, {0, 1, 2});
  EXPECT_FALSE(nodes_[0]->evaluation->IsFinalTestReady({0, 1, 2}));
  EXPECT_TRUE(nodes_[0]->evaluation->IsFinalTestReady({0, 1}));  // the third node has died
  // A share for different weights does not count.
  for (float* weight = weights_->data(); weight < weights_->data() + 20; ++weight) *weight += 1;
  nodes_[2]->evaluation->BeginFinalTest(500, 78, {0, 1, 2});
  for (float* weight = weights_->data(); weight < weights_->data() + 20; ++weight) *weight -= 1;
  for (const auto& node : nodes_) EXPECT_TRUE(node->evaluation->Published().empty());
  const auto results = nodes_[0]->evaluation->Finish();
  ASSERT_EQ(results.size(), 1u);
  ExpectSame(nodes_[0]->Logged().at(0), Whole(500));
  for (const auto& node : nodes_) {
    const auto published = node->evaluation->Published();
    ASSERT_EQ(published.size(), 1u);
    for (size_t i = 0; i < results[0].outputs.size(); ++i) {
      EXPECT_EQ(published[0].outputs[i].mean, results[0].outputs[i].mean);
    }
  }
  EXPECT_TRUE(nodes_[1]->Logged().empty());
  // The next leader reports the same result.
  const auto again = nodes_[1]->evaluation->Finish();
  EXPECT_NEAR(again.at(0).loss, results[0].loss, 1e-12);
}

// A node that joins a resumed run without its snapshot has another last iteration.
TEST_F(DistributedEvaluations, AreTheLastForThoseWithItsWeightsWhateverTheirIteration) {
  Make(3);
  nodes_[0]->evaluation->BeginFinalTest(2000, 77, {0, 1, 2});
  nodes_[1]->evaluation->BeginFinalTest(500, 77, {0, 1, 2});
  nodes_[2]->evaluation->BeginFinalTest(500, 78, {0, 1, 2});
  const auto results = nodes_[0]->evaluation->Finish();
  ASSERT_EQ(results.size(), 1u);
  const auto published = nodes_[1]->evaluation->Published();
  ASSERT_EQ(published.size(), 1u);
  EXPECT_EQ(published[0].outputs[0].mean, results[0].outputs[0].mean);
  EXPECT_TRUE(nodes_[2]->evaluation->Published().empty());
}

// The gossip that the leader has finished may arrive before the result.
TEST_F(DistributedEvaluations, AreWaitedForAtTheEndByThoseThatDoNotLead) {
  constexpr int64_t kEnd = 1000;
  Make(2);
  leader_ = 0;
  const std::span<const float> weights(weights_->data(), static_cast<size_t>(weights_->size()));
  const uint32_t checksum = TerminationDetector::Checksum(weights);
  RunEnd leader;
  leader.set_weights(checksum);
  leader.set_responsive(BitsOfNodes(std::vector<NodeId>{1}));
  // Node 0, as it has published its end; the cluster of this node never forms, so it does not lead.
  sim::GossipBoard gossip;
  const auto say = [&] {
    const std::string text = leader.SerializeAsString();
    gossip.Publish(0, std::as_bytes(std::span(text)), 1, GossipKey::kEnd);
  };
  say();
  sim::FakePeers peers(1, &gossip);
  peers.on_responsive = [](Recency) { return std::vector<NodeId>{0}; };
  NodeLife life(
      &peers, weights, {{"a", "lan"}, {"b", "lan"}}, [] { return std::nullopt; }, &clock_);
  ASSERT_TRUE(life.PollJoin());

  DistributedEvaluation& first = *nodes_[0]->evaluation;
  first.BeginFinalTest(kEnd, checksum, {0, 1});
  int looks = 0, saves = 0;
  RunFinalizer end({.peers = &peers,
                    .life = &life,
                    .clock = &clock_,
                    .tester = nodes_[1]->tester.get(),
                    .distributed_evaluation = nodes_[1]->evaluation.get(),
                    .weights = weights_.get(),
                    .layout = &net_->layout(),
                    .save =
                        [&](float*, bool is_leader) {
                          EXPECT_FALSE(is_leader);
                          ++saves;
                        },
                    .stopped =
                        [&](int) {
                          clock_.AdvanceNs(5'000'000);
                          if (++looks == 10) {
                            leader.set_done(true);
                            say();
                          }
                          if (looks == 20) first.Finish();
                          return looks > 1000;
                        }});
  EXPECT_TRUE(end.Run(kEnd));
  EXPECT_GE(looks, 20);
  EXPECT_EQ(saves, 1);
  EXPECT_EQ(end.tests().size(), 1u);
  EXPECT_EQ(end.failure(), "");
}

// The leader saves and tests its weights where the replicas do not become equal, and says so.
TEST_F(DistributedEvaluations, FollowAnEndOfTheRunThatFails) {
  Make(1);
  leader_ = 0;
  const std::span<const float> weights(weights_->data(), static_cast<size_t>(weights_->size()));
  RunEnd other;
  other.set_weights(TerminationDetector::Checksum(weights) + 1);
  other.set_responsive(BitsOfNodes(std::vector<NodeId>{0}));
  sim::GossipBoard gossip;
  const std::string text = other.SerializeAsString();
  gossip.Publish(1, std::as_bytes(std::span(text)), 1, GossipKey::kEnd);
  sim::FakePeers peers(0, &gossip);
  peers.on_responsive = [](Recency) { return std::vector<NodeId>{1}; };
  peers.on_is_leader = [] { return true; };
  NodeLife life(
      &peers, weights, {{"a", "lan"}, {"b", "lan"}}, [] { return std::nullopt; }, &clock_);
  ASSERT_TRUE(life.PollJoin());
  int saves = 0;
  RunFinalizer end({.peers = &peers,
                    .life = &life,
                    .clock = &clock_,
                    .tester = nodes_[0]->tester.get(),
                    .distributed_evaluation = nodes_[0]->evaluation.get(),
                    .weights = weights_.get(),
                    .layout = &net_->layout(),
                    .save = [&](float*, bool is_leader) { saves += is_leader; },
                    .stopped =
                        [&](int) {
                          clock_.AdvanceNs(5'000'000);
                          return false;
                        }});
  EXPECT_TRUE(end.Run(kInterval + 1));
  EXPECT_EQ(saves, 1);
  EXPECT_EQ(end.tests().size(), 1u);  // although none is due at that iteration
  EXPECT_EQ(end.failure(),
            "the replicas are apart at the end of the run: of 2 nodes 1 have this node's weights; "
            "others: b on segment lan");
}

}  // namespace
}  // namespace millrace::test
