#include "cluster/termination_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "cluster/peer_failures.h"
#include "test/sim/fake_peers.h"
#include "test/sim/gossip_board.h"
#include "test/sim/gossip_cluster.h"
#include "test/support/fake_clock.h"

namespace millrace::test {
namespace {

using State = TerminationDetector::State;
using FinalSnapshotOwner = TerminationDetector::FinalSnapshotOwner;

// Nodes that exchange gossip at once, and whose segments the test controls.
class TerminationDetectors : public testing::Test {
 protected:
  static constexpr size_t kNodes = 4;

  // The solvers of `node` have ended; its segments connect it with `responsive`.
  void End(NodeId node, std::set<NodeId> responsive) {
    responsive_[node] = std::move(responsive);
    auto& peers = peers_[node] = std::make_unique<sim::FakePeers>(node, &gossip_);
    peers->on_responsive = [this, node](Recency) {
      return std::vector<NodeId>(responsive_[node].begin(), responsive_[node].end());
    };
    peers->on_merges = [this, node] { return merges_[node]; };
    peers->on_flush = [this, node] { flushed_.insert(node); };
    nodes_[node] =
        std::make_unique<TerminationDetector>(peers.get(), std::span(&weights_[node], 1), &clock_);
  }
  void Merge(NodeId node, float weight) {
    weights_[node] = weight;
    ++merges_[node];
  }
  // Polls `ms` later.
  State Update(NodeId node, int64_t ms = 30) {
    clock_.AdvanceNs(ms * 1'000'000);
    return nodes_[node]->Update();
  }

  int64_t GivesUpAfterMs(int64_t max_ms, int64_t own_ms, bool tells = true);

  // Polls a stopped `node`.
  FinalSnapshotOwner UpdateStopped(NodeId node, bool is_leader = false, bool ended = true) {
    clock_.AdvanceNs(30'000'000);
    return nodes_[node]->UpdateStopped(is_leader, ended);
  }

  FakeClock clock_;
  float weights_[kNodes] = {};
  uint64_t merges_[kNodes] = {};
  std::set<NodeId> flushed_;
  std::map<NodeId, std::set<NodeId>> responsive_;
  sim::GossipBoard gossip_;
  std::map<NodeId, std::unique_ptr<sim::FakePeers>> peers_;
  std::map<NodeId, std::unique_ptr<TerminationDetector>> nodes_;
};

TEST_F(TerminationDetectors, PassOnAnEarlyEndAndTakeTheFirstOfSeveral) {
  for (NodeId node = 0; node < 3; ++node) End(node, {});
  EXPECT_FALSE(nodes_[1]->FindEarlyEnd());
  nodes_[0]->PublishEarlyEnd({70, "target: reached"});
  for (NodeId node = 0; node < 3; ++node) {
    const auto end = nodes_[node]->FindEarlyEnd();
    ASSERT_TRUE(end);
    EXPECT_EQ(end->iteration, 70);
    EXPECT_EQ(end->reason, "target: reached");
  }
  nodes_[1]->PublishEarlyEnd({60, "of another leader"});
  EXPECT_EQ(nodes_[0]->FindEarlyEnd()->iteration, 60);
  EXPECT_EQ(nodes_[2]->FindEarlyEnd()->iteration, 60);
}

// The leader publishes them while its solvers train, so it must not appear to have ended.
TEST_F(TerminationDetectors, TellFailuresOfOthersDuringTraining) {
  End(0, {1});
  End(1, {0});
  nodes_[0]->PublishPeerFailures({});
  EXPECT_EQ(gossip_.published(0), 0u);
  nodes_[0]->PublishPeerFailures({{3, 7}});
  nodes_[0]->PublishPeerFailures({{3, 7}});
  EXPECT_EQ(gossip_.published(0), 1u);
  PeerFailures others(peers_[1].get(), {"a", "b", "c", "d"});
  EXPECT_EQ(others.TakeNew().size(), 1u);
  EXPECT_EQ(Update(1), State::kTraining);
  EXPECT_EQ(nodes_[1]->Training(), (std::vector<NodeId>{0}));
  Update(0);
  EXPECT_EQ(Update(1), State::kQuiescent);
  EXPECT_EQ(others.AllNotFinite().size(), 1u);
  nodes_[0]->PublishPeerFailures({});  // node 3 has completed a run
  EXPECT_EQ(Update(1), State::kQuiescent);
  std::vector<std::pair<NodeId, uint32_t>> many;
  for (NodeId node = 4; node < 1000; ++node) many.push_back({node, 4'000'000'000});
  nodes_[0]->PublishPeerFailures(many);
  EXPECT_LE(gossip_.Read(0, GossipKey::kEnd).at(0).bytes.size(), 600u);
  EXPECT_EQ(others.TakeNew().size(), TerminationDetector::kMaxFailedPeers);
}

TEST_F(TerminationDetectors, TellThatTheScheduleIsTooShort) {
  End(0, {1});
  End(1, {0});
  Update(0);
  EXPECT_EQ(nodes_[1]->FindTooShort(), std::nullopt);
  nodes_[0]->PublishTooShort("segment lan: an exchange takes 9 s");
  EXPECT_EQ(nodes_[1]->FindTooShort(), "segment lan: an exchange takes 9 s");
  EXPECT_EQ(nodes_[0]->FindTooShort(), std::nullopt);  // its own
  // It has failed no less than others, but says so itself.
  EXPECT_EQ(PeerFailures(peers_[1].get(), {"a", "b"}).TakeNew().size(), 0u);
  EXPECT_EQ(Update(1), State::kQuiescent);
  EXPECT_EQ(nodes_[1]->reachable(), (std::vector<NodeId>{1}));
  nodes_[1]->PublishTooShort(std::string(5000, 'x'));
  EXPECT_LE(gossip_.Read(1, GossipKey::kEnd).at(1).bytes.size(), kMaxGossipBytes);
}

// The failure detector counts all frames of all nodes; the exchange's membership counts frames of
// members alone. Each may know a node that the other does not.
TEST_F(TerminationDetectors, WaitForPeersThatRespondWhetherTheyAreMembersOrNot) {
  uint32_t members = 1;
  End(0, {1});
  peers_[0]->on_members = [&] { return members; };
  // Node 1 sends frames, and the view has dropped it or not taken it yet.
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Update(0), State::kTraining);
  // It is still a member, and sends no frames.
  responsive_[0].clear();
  members = 2;
  EXPECT_EQ(Update(0), State::kQuiescent);
}

// The state of nodes' ends over real gossip on links that lose frames.
class GossipPeers : public sim::FakePeers {
 public:
  // A node without links of its own has left. Both outlive this object.
  GossipPeers(NodeId self, sim::GossipCluster* gossip, const std::vector<NodeId>* living)
      : FakePeers(self), gossip_(*gossip), living_(*living) {}
  void Publish(GossipKey key, std::span<const std::byte> bytes) override {
    gossip_.store(self()).Publish(key, bytes);
  }
  std::vector<GossipMessage> Read(GossipKey key) const override {
    return gossip_.store(self()).Read(key);
  }
  // Nodes that have left stay members for a while.
  bool all_acked() const override {
    const Gossip& link = gossip_.link(self());
    for (NodeId node = 0; node < kNodes; ++node) {
      if (node != self() && !link.Has(node, gossip_.store(self()).changes())) return false;
    }
    return true;
  }
  std::vector<NodeId> ResponsivePeers(Recency) override {
    std::vector<NodeId> peers = living_;
    std::erase(peers, self());
    return peers;
  }
  static constexpr NodeId kNodes = 4;

 private:
  sim::GossipCluster& gossip_;
  const std::vector<NodeId>& living_;
};

TEST(TooShortSchedule, EndsAllNodesWhateverTheLinksLose) {
  constexpr NodeId kNodes = GossipPeers::kNodes;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    sim::GossipCluster gossip(sim::FlatShape(kNodes), {.loss = 0.8}, 300, seed);
    gossip.StartAll();
    FakeClock clock;
    std::vector<NodeId> living = {0, 1, 2, 3};
    std::vector<std::unique_ptr<GossipPeers>> peers;
    std::vector<std::unique_ptr<TerminationDetector>> nodes;
    for (NodeId node = 0; node < kNodes; ++node) {
      peers.push_back(std::make_unique<GossipPeers>(node, &gossip, &living));
      nodes.push_back(std::make_unique<TerminationDetector>(peers.back().get(),
                                                            std::span<const float>(), &clock));
    }
    nodes[0]->PublishTooShort("an exchange takes 9 s");
    std::set<NodeId> heard = {0};
    for (int ms = 0; ms < 600'000 && !living.empty(); ms += 5) {
      gossip.Run(5);
      clock.AdvanceNs(5'000'000);
      for (const NodeId node : std::vector(living)) {
        if (!heard.contains(node)) {
          const std::optional<std::string> line = nodes[node]->FindTooShort();
          if (!line) continue;
          nodes[node]->PublishTooShort(*line);
          heard.insert(node);
        }
        if (!nodes[node]->IsTooShortHeard()) continue;
        std::erase(living, node);
        gossip.Stop(node);
      }
    }
    EXPECT_EQ(heard.size(), kNodes);
    EXPECT_TRUE(living.empty());
  }
}

TEST_F(TerminationDetectors, TellWhatChangesAllTheTimeFiftyTimesASecond) {
  End(0, {1});
  End(1, {0});
  for (int i = 1; i <= 200; ++i) {
    Merge(0, static_cast<float>(i));
    Update(0, 5);
  }
  EXPECT_GE(gossip_.published(0), 45);
  EXPECT_LE(gossip_.published(0), 51);
  Merge(1, 200);
  Update(0);
  EXPECT_EQ(Update(1), State::kQuiescent);
}

// A node that goes on to its last test publishes nothing for as long as that takes.
TEST_F(TerminationDetectors, TellEqualWeightsAtOnce) {
  weights_[0] = 3;
  End(0, {1});
  End(1, {0});
  Update(0);
  EXPECT_EQ(Update(1), State::kInFlight);
  Merge(1, 3);
  EXPECT_EQ(Update(1, 5), State::kQuiescent);  // sooner than changes are published
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Update(0), State::kQuiescent) << i;
}

// The run ends just after the node has joined. It must not take itself for the only one.
TEST_F(TerminationDetectors, WaitAMomentForPeersThatAreNotKnownYet) {
  weights_[1] = 3;
  End(0, {});
  peers_[0]->on_members = [] { return 2u; };
  EXPECT_EQ(Update(0), State::kInFlight);
  End(1, {0});
  Update(1);
  responsive_[0] = {1};
  EXPECT_EQ(Update(0), State::kInFlight);
  Merge(0, 3);
  EXPECT_EQ(Update(0), State::kQuiescent);
}

// The view may still hold a node that is gone.
TEST_F(TerminationDetectors, DoNotWaitForMembersThatNobodyHears) {
  End(0, {});
  peers_[0]->on_members = [] { return 2u; };
  int64_t ms = 30;
  for (; Update(0) == State::kInFlight; ms += 30) ASSERT_LT(ms, 1000);
  EXPECT_EQ(Update(0), State::kQuiescent);
}

TEST_F(TerminationDetectors, ComeWhenAllHaveEndedAndHaveTheSameWeights) {
  weights_[1] = 3;
  End(0, {1, 2});
  EXPECT_EQ(Update(0), State::kTraining);
  EXPECT_EQ(nodes_[0]->Training(), (std::vector<NodeId>{1, 2}));
  End(1, {0, 2});
  EXPECT_EQ(Update(1), State::kTraining);
  EXPECT_EQ(nodes_[1]->Training(), (std::vector<NodeId>{2}));
  End(2, {0, 1});
  EXPECT_EQ(Update(2), State::kInFlight);
  EXPECT_EQ(Update(0), State::kInFlight);
  Merge(0, 3);
  EXPECT_EQ(Update(0), State::kInFlight);
  Merge(2, 3);
  EXPECT_EQ(Update(2), State::kQuiescent);
  for (NodeId node : {0, 1}) EXPECT_EQ(Update(node), State::kQuiescent);
  const uint32_t checksum = TerminationDetector::Checksum(std::span<const float>(weights_, 1));
  EXPECT_EQ(nodes_[0]->WithWeights(checksum), (std::vector<NodeId>{0, 1, 2}));
  EXPECT_EQ(nodes_[0]->reachable(), (std::vector<NodeId>{0, 1, 2}));
}

TEST_F(TerminationDetectors, NoticeWeightsThatChangeUncounted) {
  End(0, {1});
  End(1, {0});
  for (NodeId node : {1, 0, 1}) Update(node);
  EXPECT_EQ(Update(1), State::kQuiescent);
  weights_[0] = 1;
  Update(0, 1000);
  EXPECT_EQ(Update(1), State::kInFlight);
}

TEST_F(TerminationDetectors, WaitForThoseThatOthersReach) {
  End(0, {1});
  End(1, {0, 2});
  Update(1);
  EXPECT_EQ(Update(0), State::kTraining);  // waits for 2, which only 1 reaches
  End(2, {1});
  weights_[2] = 1;
  Update(2);
  EXPECT_EQ(Update(0), State::kInFlight);
  Merge(2, 0);
  Update(2);
  EXPECT_EQ(Update(0), State::kQuiescent);
}

TEST_F(TerminationDetectors, WaitForNobodyWhoIsNotHeard) {
  End(0, {1});
  End(1, {0, 2});
  End(2, {1, 3});
  weights_[2] = 1;
  for (NodeId node : {0, 1, 2}) Update(node);
  EXPECT_EQ(Update(0), State::kTraining);  // waits for 3, which only 2 reaches
  responsive_[1].erase(2);                 // 2 is dead
  Update(1);
  EXPECT_EQ(Update(0), State::kQuiescent);
  EXPECT_EQ(nodes_[0]->reachable(), (std::vector<NodeId>{0, 1}));
  responsive_[0].clear();
  EXPECT_EQ(Update(0), State::kQuiescent);  // alone
}

TEST_F(TerminationDetectors, WaitForNobodyWhoGoes) {
  weights_[1] = 1;
  End(0, {1});
  End(1, {0});
  Update(1);
  EXPECT_EQ(Update(0), State::kInFlight);
  nodes_[1]->PublishGone();
  EXPECT_EQ(Update(0), State::kQuiescent);
}

TEST_F(TerminationDetectors, TellThatWhatIsDoneOnceIsDone) {
  End(0, {1});
  End(1, {0});
  Update(0);
  EXPECT_FALSE(nodes_[0]->done());
  nodes_[1]->PublishDone();
  nodes_[1]->PublishGone();
  Update(0);
  EXPECT_TRUE(nodes_[0]->done());
}

TEST_F(TerminationDetectors, GiveUpOnLongLastIterations) {
  End(0, {1});
  EXPECT_EQ(Update(0), State::kTraining);
  clock_.AdvanceNs(TerminationDetector::kTrainNs - 50'000'000);
  EXPECT_EQ(Update(0), State::kTraining);
  EXPECT_EQ(Update(0), State::kDiverged);
}

// Node 0 has ended. Node 1 runs an iteration; its longest one so far took `max_ms`. Returns the
// time in ms, in steps of 1 s, until node 0 gives up.
int64_t TerminationDetectors::GivesUpAfterMs(int64_t max_ms, int64_t own_ms, bool tells) {
  clock_.AdvanceNs(1'000'000'000);
  for (NodeId node : {0, 1}) End(node, {0, 1});
  gossip_.Clear();
  nodes_[0]->SetLongest(own_ms * 1'000'000);
  if (tells) nodes_[1]->PublishTraining(max_ms * 1'000'000);
  State state = Update(0, 0);
  int64_t waited_ms = 0;
  for (; state == State::kTraining; waited_ms += 1000) state = Update(0, 1000);
  EXPECT_EQ(state, State::kDiverged);
  return waited_ms;
}

TEST_F(TerminationDetectors, WaitForIterationsAsLongAsTheNodeThatTrainsHasHad) {
  EXPECT_EQ(GivesUpAfterMs(50'000, 10), 150'000);
  EXPECT_EQ(GivesUpAfterMs(10, 50'000), 150'000);  // node 0 is the slower one
  EXPECT_EQ(GivesUpAfterMs(10, 10), 30'000);
  // Node 1 may be in its first iteration.
  EXPECT_EQ(GivesUpAfterMs(0, 50'000, false), 150'000);
  // A reported duration is capped.
  EXPECT_EQ(GivesUpAfterMs(INT64_MAX / 1'000'000, 10),
            TerminationDetector::kMaxTrainNs / 1'000'000);
}

TEST_F(TerminationDetectors, TakeTheLastStepOfAnIterationThatIsLong) {
  for (NodeId node : {0, 1}) End(node, {0, 1});
  gossip_.Clear();
  nodes_[1]->PublishTraining(60'000'000'000);
  EXPECT_EQ(Update(0), State::kTraining);
  EXPECT_EQ(nodes_[0]->Training(), std::vector<NodeId>{1});
  EXPECT_EQ(Update(0, 55'000), State::kTraining);
  weights_[1] = 3;
  EXPECT_EQ(Update(1), State::kInFlight);
  EXPECT_EQ(Update(0), State::kInFlight);
  Merge(0, 3);
  EXPECT_EQ(Update(0), State::kQuiescent);
}

TEST_F(TerminationDetectors, FlushWhatIsLeftOnceAllHaveEnded) {
  for (NodeId node : {0, 1}) End(node, {0, 1});
  gossip_.Clear();
  weights_[1] = 1;
  EXPECT_EQ(Update(0), State::kTraining);
  EXPECT_TRUE(flushed_.empty());
  EXPECT_EQ(Update(1), State::kInFlight);
  EXPECT_EQ(flushed_, std::set<NodeId>{1});
  EXPECT_EQ(Update(0), State::kInFlight);
  EXPECT_EQ(flushed_, (std::set<NodeId>{0, 1}));
}

// A master keeps the sign of a loaded zero; its workers do not.
TEST_F(TerminationDetectors, ComeWhereZerosDifferInTheirSign) {
  weights_[0] = -0.0f;
  weights_[1] = 0.0f;
  for (NodeId node : {0, 1}) End(node, {0, 1});
  for (NodeId node : {0, 1}) Update(node);
  EXPECT_EQ(Update(0), State::kQuiescent);
  EXPECT_TRUE(nodes_[0]->same());
  std::vector<float> many(5000, 1.0f), others = many;
  many[0] = many[1023] = many[1024] = many[4999] = -0.0f;
  EXPECT_NE(TerminationDetector::Checksum(many), TerminationDetector::Checksum(others));
  others[0] = others[1023] = others[1024] = others[4999] = 0.0f;
  EXPECT_EQ(TerminationDetector::Checksum(many), TerminationDetector::Checksum(others));
  EXPECT_EQ(TerminationDetector::Checksum(others), Crc32c(std::as_bytes(std::span(others))));
}

TEST_F(TerminationDetectors, GiveUpOnWeightsThatStayApartButNotOnThoseThatMove) {
  weights_[1] = 1;
  End(0, {1});
  End(1, {0});
  Update(1);
  for (int i = 0; i < 2500; ++i) {
    Merge(1, static_cast<float>(2 + i));
    Update(1, TerminationDetector::kStillNs / 4'000'000);
    const State state = Update(0);
    if (clock_.NowNs() < TerminationDetector::kMoveNs) {
      ASSERT_EQ(state, State::kInFlight) << i;
    }
  }
  EXPECT_EQ(Update(0), State::kDiverged);
  End(0, {1});
  EXPECT_EQ(Update(0), State::kInFlight);
  EXPECT_EQ(Update(0, TerminationDetector::kStillNs / 1'000'000 - 10), State::kInFlight);
  EXPECT_EQ(Update(0), State::kDiverged);
}

// A pending diff that is too small to change its sender's weights may move those of its master, if
// the merge rule has momentum.
TEST_F(TerminationDetectors, WaitUntilNothingIsOutstandingWhereWeightsAreEqual) {
  bool settled = false;
  for (NodeId node : {0, 1}) End(node, {0, 1});
  peers_[1]->on_settled = [&] { return settled; };
  for (NodeId node : {0, 1, 0, 1}) Update(node);
  for (NodeId node : {0, 1, 0, 1}) EXPECT_EQ(Update(node), State::kInFlight);
  settled = true;
  Update(1);
  for (NodeId node : {0, 1}) EXPECT_EQ(Update(node), State::kQuiescent);
  // Not for ever: equal weights are what counts.
  settled = false;
  Update(1);
  EXPECT_EQ(Update(0), State::kInFlight);
  EXPECT_EQ(Update(0, TerminationDetector::kStillNs / 1'000'000), State::kQuiescent);
}

TEST_F(TerminationDetectors, WaitForProgressThatIsOutstandingButNotForEver) {
  weights_[1] = 1;
  bool settled = true;
  for (NodeId node : {0, 1}) {
    End(node, {0, 1});
    Update(node);
  }
  peers_[1]->on_settled = [&] { return settled; };
  constexpr int64_t kStepMs = 250;
  // Polls both nodes for so long or until node 0 gives up; returns its last result.
  const auto poll = [&](int64_t ns) {
    State state = State::kInFlight;
    for (const int64_t end = clock_.NowNs() + ns;
         clock_.NowNs() < end && state == State::kInFlight;) {
      Update(1, kStepMs);
      state = Update(0, 0);
    }
    return state;
  };
  // The other node has sent something that was lost, and sends it again much later.
  settled = false;
  EXPECT_EQ(poll(TerminationDetector::kOutstandingNs / 2), State::kInFlight);
  // From the answer on, the weights may become equal at once or never.
  settled = true;
  EXPECT_EQ(poll(TerminationDetector::kStillNs - 3 * kStepMs * 1'000'000), State::kInFlight);
  EXPECT_EQ(poll(3 * kStepMs * 1'000'000), State::kDiverged);
  // A node that never gets an answer does not keep the others.
  Merge(1, 2);
  settled = false;
  EXPECT_EQ(poll(TerminationDetector::kOutstandingNs - 3 * kStepMs * 1'000'000), State::kInFlight);
  EXPECT_EQ(poll(4 * kStepMs * 1'000'000), State::kDiverged);
}

TEST_F(TerminationDetectors, OfStoppedNodesNameTheLeaderToSave) {
  for (NodeId node : {0, 1, 2}) End(node, {0, 1, 2});
  gossip_.Clear();
  EXPECT_EQ(UpdateStopped(1, true),
            FinalSnapshotOwner::kNobody);  // it has to assume that the others continue
  EXPECT_EQ(UpdateStopped(0), FinalSnapshotOwner::kNobody);
  EXPECT_EQ(UpdateStopped(2, false, false), FinalSnapshotOwner::kOther);
  EXPECT_EQ(UpdateStopped(0), FinalSnapshotOwner::kOther);
  EXPECT_EQ(UpdateStopped(1, true), FinalSnapshotOwner::kThis);
  nodes_[1]->PublishGone();
  EXPECT_EQ(UpdateStopped(2), FinalSnapshotOwner::kOther);
  EXPECT_EQ(UpdateStopped(0),
            FinalSnapshotOwner::kThis);  // without a leader, the lowest node saves
  responsive_[2].erase(0);               // 0 is dead
  responsive_[2].erase(1);
  EXPECT_EQ(UpdateStopped(2), FinalSnapshotOwner::kThis);
}

TEST_F(TerminationDetectors, OfStoppedNodesNameNoUnresponsiveOneThoughAnotherReceivesItsFrames) {
  for (NodeId node : {0, 1, 2}) End(node, {0, 1, 2});
  for (NodeId node : {0, 1, 2}) UpdateStopped(node, node == 0);
  EXPECT_EQ(UpdateStopped(1), FinalSnapshotOwner::kOther);
  responsive_[1].erase(0);  // 0 has died; the message of 2 is older
  EXPECT_EQ(UpdateStopped(1), FinalSnapshotOwner::kThis);
}

TEST_F(TerminationDetectors, OfNodesThatWereStoppedNameNobodyWhileOneWaitsAtTheEnd) {
  for (NodeId node : {0, 1}) End(node, {0, 1});
  Update(0);
  EXPECT_EQ(UpdateStopped(1, true), FinalSnapshotOwner::kNobody);
}

TEST_F(TerminationDetectors, WaitForTheLastIterationOfANodeThatWasStopped) {
  for (NodeId node : {0, 1}) End(node, {0, 1});
  UpdateStopped(1, false, false);
  EXPECT_EQ(Update(0), State::kTraining);
  UpdateStopped(1);
  EXPECT_EQ(Update(0), State::kQuiescent);
  EXPECT_EQ(nodes_[0]->reachable(), std::vector<NodeId>{0});
}

}  // namespace
}  // namespace millrace::test
