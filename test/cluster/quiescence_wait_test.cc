// The end of a run, as one node sees it.
#include "cluster/quiescence_wait.h"

#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "base/node_bits.h"
#include "proto/gossip.pb.h"
#include "test/sim/fake_peers.h"
#include "test/sim/gossip_board.h"
#include "test/support/fake_clock.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using Result = QuiescenceWait::Result;

// Node a, which reaches b over segment lan, and c over b.
class QuiescenceWaits : public testing::Test {
 protected:
  QuiescenceWaits() {
    peers_.on_responsive = [](Recency) { return std::vector<NodeId>{1}; };
    Say(1, 0, {0, 2});
    Say(2, 0, {1});
  }
  // `node` has ended with `weight`.
  void Say(NodeId node, float weight, std::vector<NodeId> responsive) {
    RunEnd end;
    end.set_weights(TerminationDetector::Checksum({&weight, 1}));
    end.set_responsive(BitsOfNodes(responsive));
    Publish(node, end);
  }
  void Publish(NodeId node, const RunEnd& end) {
    const std::string text = end.SerializeAsString();
    gossip_.Publish(node, std::as_bytes(std::span(text)), 1, GossipKey::kEnd);
  }
  // Polls until the wait has ended; returns the seconds.
  double Await(Result expected) {
    const int64_t begin = clock_.NowNs();
    Result result = Result::kWaiting;
    for (; result == Result::kWaiting; clock_.AdvanceNs(100'000'000)) result = wait_.Step();
    EXPECT_EQ(result, expected);
    return static_cast<double>(clock_.NowNs() - begin) * 1e-9;
  }

  FakeClock clock_;
  sim::GossipBoard gossip_;
  float weight_ = 0;
  std::vector<float> frozen_;
  float next_ = 0;  // the weight as it is when it is frozen
  sim::FakePeers peers_{0, &gossip_};
  TerminationDetector termination_{&peers_, std::span(&weight_, 1), &clock_};
  QuiescenceWait wait_{&termination_,
                       &peers_,
                       {{"a", ""}, {"b", "lan"}, {"c", ""}},
                       [this] {
                         frozen_.push_back(next_);
                         return TerminationDetector::Checksum({&next_, 1});
                       },
                       &clock_};
};

TEST_F(QuiescenceWaits, EndWithTheWeightsThatAllHave) {
  EXPECT_EQ(wait_.Step(), Result::kQuiescent);
  EXPECT_EQ(wait_.failure(), "");
  EXPECT_EQ(frozen_, std::vector<float>{0});
}

TEST_F(QuiescenceWaits, GoOnWhereTheWeightsChangedBeforeTheyWereFrozen) {
  next_ = 5;
  EXPECT_EQ(wait_.Step(), Result::kWaiting);
  next_ = 0;
  EXPECT_EQ(wait_.Step(), Result::kQuiescent);
  EXPECT_EQ(frozen_, (std::vector<float>{5, 0}));
}

TEST_F(QuiescenceWaits, NameTheNodesWithOtherWeights) {
  Say(1, 7, {0, 2});
  Say(2, 8, {1});
  EXPECT_GE(Await(Result::kDiverged), 3);
  EXPECT_EQ(wait_.failure(),
            "the replicas are apart at the end of the run: of 3 nodes 1 have this node's weights; "
            "others: b on segment lan, c");
}

TEST_F(QuiescenceWaits, NameValuesThatAreNotFiniteAsTheLikelyCause) {
  Say(1, 7, {0, 2});
  peers_.on_non_finite = [] { return 37'767; };
  Await(Result::kDiverged);
  EXPECT_CONTAINS(wait_.failure(),
                  "others: b on segment lan; likely cause: weights of a node have overflowed, as "
                  "37767 frames were dropped here because a value was not finite; expected a "
                  "lower base_lr, the same on all nodes");
}

TEST_F(QuiescenceWaits, NameProgressThatIsStillUnderWayAsTheLikelyCause) {
  RunEnd end;
  const float weight = 7;
  end.set_weights(TerminationDetector::Checksum({&weight, 1}));
  end.set_responsive(BitsOfNodes({0, 2}));
  end.set_outstanding(true);
  Publish(1, end);
  EXPECT_GE(Await(Result::kDiverged), 60);
  EXPECT_CONTAINS(wait_.failure(),
                  "; likely cause: a link or a processor that is too slow, as progress of b is "
                  "still under way");
}

TEST_F(QuiescenceWaits, NameTheNodesThatDoNotEnd) {
  RunEnd training;
  training.set_iteration_ns(1);
  training.set_responsive(BitsOfNodes({0, 2}));
  Publish(1, training);
  EXPECT_GE(Await(Result::kDiverged), 30);
  EXPECT_EQ(wait_.failure(),
            "the replicas are apart at the end of the run: these nodes have not ended in time, and "
            "the saved model may lack their progress: b on segment lan");
}

// A node that polls once in each pass over its weights. What a pass finds was so at its begin.
struct SlowNode {
  SlowNode(NodeId id, double pass, sim::GossipBoard* gossip, FakeClock* clock)
      : peers(id, gossip), pass_s(pass), end_s(pass) {
    peers.on_responsive = [id](Recency) {
      return std::vector<NodeId>{static_cast<NodeId>(1 - id)};
    };
    peers.on_members = [] { return 2u; };
    peers.on_merges = [this] { return merges; };
    termination.emplace(&peers, WeightReader(std::span(&weight, 1)), clock);
    wait.emplace(
        &*termination, &peers, std::vector<PeerLabel>{{"a", "lan"}, {"b", "lan"}},
        [this] {
          return TerminationDetector::Checksum({&weight, 1});
        },
        clock);
  }

  sim::FakePeers peers;
  const double pass_s;
  double end_s;  // of the current pass
  float weight = 0, next = 0;
  uint64_t merges = 0, next_merges = 0;
  std::optional<TerminationDetector> termination;
  std::optional<QuiescenceWait> wait;
  Result result = Result::kWaiting;
};

// Two nodes whose solvers end at once. At 1 s they get each other's last progress.
void EndTogether(double pass, double other_pass) {
  FakeClock clock;
  sim::GossipBoard gossip(&clock);
  gossip.delay_ns = 1'000'000;
  SlowNode a(0, pass, &gossip, &clock), b(1, other_pass, &gossip, &clock);
  a.next = 1;
  b.next = 2;
  const auto waits = [&] { return a.result == Result::kWaiting || b.result == Result::kWaiting; };
  for (double now = 0; now < 100 && waits(); now += 0.005, clock.AdvanceNs(5'000'000)) {
    for (SlowNode* node : {&a, &b}) {
      if (node->result != Result::kWaiting || now < node->end_s) continue;
      node->weight = node->next;
      node->merges = node->next_merges;
      node->result = node->wait->Step();
      node->end_s = now + node->pass_s;
      if (now < 1) continue;
      node->next = 3;
      node->next_merges = 5;
    }
  }
  for (const SlowNode* node : {&a, &b}) EXPECT_EQ(node->result, Result::kQuiescent);
}

TEST(SlowChecksum, EndsWithTheWeightsThatAllHave) {
  for (const double pass : {0.1, 1.0, 2.0, 3.5, 5.0, 10.0}) {
    for (const double other : {pass, 0.3}) {
      SCOPED_TRACE(StrCat("passes of ", pass, " and ", other, " s"));
      EndTogether(pass, other);
      EndTogether(other, pass);
    }
  }
}

}  // namespace
}  // namespace millrace::test
