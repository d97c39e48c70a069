#include "exchange/protocol/membership.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"
#include "base/wire_bytes.h"
#include "test/sim/membership_cluster.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using sim::FrameBytes;
using sim::MembershipCluster;

// The partition mask of the nodes below `border`.
constexpr uint64_t Below(int border) { return (1u << border) - 1; }

TEST(Membership, IsBootstrappedByANodeThatReceivesNoFramesForLong) {
  MembershipCluster m(3);
  m.Start(1);
  m.Run(40);
  EXPECT_FALSE(m.view(1).id);
  m.Run(5);
  EXPECT_EQ(m.view(1).id, (ViewId{1, 1, 1}));
  EXPECT_EQ(m.of(1).role(), Role::kSynced);
  EXPECT_TRUE(m.Agree());
}

TEST(Membership, IsBootstrappedByTheLowestOfThoseThatStartTogether) {
  auto m = MembershipCluster::Agreed(4);
  for (uint16_t node = 0; node < 4; ++node) {
    EXPECT_EQ((*m)[node].resets, node == 0 ? 0 : 1);
    EXPECT_TRUE(m->view(node).DescendsFrom({1, 0, 1}) || node == 0);
  }
}

TEST(Membership, LetsNodesBeyondTheMostMembersWaitUntilThereIsRoom) {
  MembershipCluster m(4);
  m.max_members = 3;
  m.StartAll();
  m.Run(300);
  ASSERT_EQ(m.view(0).members.size(), 3u);
  EXPECT_EQ(m.view(0).synced(), 3u);
  uint16_t waiting = 0;
  while (m.view(0).Find(waiting)) ++waiting;
  EXPECT_FALSE(m.view(waiting).id);
  m.Kill(waiting == 1 ? 2 : 1);
  m.Run(300);
  EXPECT_TRUE(m.Agree());
  EXPECT_TRUE(m.view(0).Find(waiting));
}

// The node could not forward such a view.
TEST(Membership, DoesNotUnderstandAViewOfMoreThanTheMostMembers) {
  auto m = MembershipCluster::Agreed(3);
  m->Run(20);
  const FrameView frame = m->last[{0, FrameType::kHeartbeat}].decoded();
  for (const uint16_t most : {2, 3}) {
    Membership other({.node = 2, .max_nodes = 3, .max_members = most});
    other.Tick(0);
    EXPECT_EQ(other.Receive(frame, 0), most == 3);
  }
}

TEST(Membership, AdmitsWhoAsksAndGivesItAShareOnceItIsSynced) {
  MembershipCluster m(2);
  m.Start(0);
  m.Run(60);
  m.Start(1, 9);
  m[1].gets_synced = false;
  m.Run(60);
  EXPECT_EQ(m.of(1).role(), Role::kJoining);
  EXPECT_TRUE(m.view(0).Has(1, 9));
  EXPECT_EQ(m.view(0).synced(), 1u);
  m[1].gets_synced = true;
  m.Run(30);
  EXPECT_EQ(m.of(1).role(), Role::kSynced);
  EXPECT_TRUE(m.Agree());
  EXPECT_EQ(m[1].resets, 1);
  EXPECT_EQ(m[0].resets, 0);
}

TEST(Membership, GoesOnWithTheViewThatHasDoneMoreWork) {
  for (const bool lower : {true, false}) {
    MembershipCluster m(4);
    m.network().Partition(Below(2));
    m.StartAll();
    m.Run(200);
    ASSERT_NE(m.view(0).id, m.view(2).id);
    m.Work(0, lower ? 100 : 10);
    m.Work(2, lower ? 10 : 100);
    m.Run(20);
    for (int i = 0; i < 4; ++i) m[i].resets = 0;
    m.network().Heal();
    m.Run(300);
    EXPECT_TRUE(m.Agree());
    for (int i = 0; i < 4; ++i) EXPECT_EQ(m[i].resets, (i < 2) == lower ? 0 : 1);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(m.of(i).global_clock(), 100u);
  }
}

TEST(Membership, DropsAnUnresponsiveMemberAndKeepsCountOfItsWork) {
  auto m = MembershipCluster::Agreed(3);
  m->Work(2, 70);
  m->Work(0, 5);
  m->Run(20);
  m->Kill(2);
  m->Run(50);
  EXPECT_EQ(m->view(0).members.size(), 3u);
  m->Run(60);
  EXPECT_TRUE(m->Agree());
  EXPECT_EQ(m->view(1).past_clock, 70u);
  EXPECT_EQ(m->of(1).global_clock(), 75u);
  EXPECT_EQ((*m)[0].resets + (*m)[1].resets, 1);  // of node 1, when it first joined
}

TEST(Membership, TakesWhoComesBackForAnother) {
  auto m = MembershipCluster::Agreed(3);
  m->Work(2, 70);
  m->Run(20);
  m->Start(2, 1000);
  m->Run(200);
  EXPECT_TRUE(m->Agree());
  EXPECT_TRUE(m->view(0).Has(2, 1000));
  EXPECT_EQ(m->view(0).past_clock, 70u);
  EXPECT_EQ(m->of(0).global_clock(), 70u);
}

TEST(Membership, IgnoresLateFramesOfAnEarlierIncarnation) {
  MembershipCluster m(2);
  m.Start(0);
  m.Run(60);
  m.Start(1, 5);
  m.delivers = [](uint16_t from, uint16_t, FrameType) { return from == 0; };
  m.Run(20);
  const auto late = m.last[{1, FrameType::kHeartbeat}];  // a request to join
  m.Start(1, 1000);
  const auto deliver_late = [&] { m.network().Inject(1, 0, late, m.tick() + 1); };
  m.delivers = [&](uint16_t, uint16_t to, FrameType type) {
    if (to == 0 && type == FrameType::kHeartbeat) deliver_late();
    return true;
  };
  for (int i = 0; i < 200; ++i) {
    m.Tick();
    m.network().Inject(1, 0, late, m.tick());  // the last frame of the tick
  }
  EXPECT_TRUE(m.Agree());
  EXPECT_TRUE(m.view(0).Has(1, 1000));
}

// As after a suspension of all machines: missing frames prove nothing.
TEST(Membership, DropsNobodyAfterAllStoodStill) {
  auto m = MembershipCluster::Agreed(4);
  const ViewId before = m->view(0).id;
  for (int i = 0; i < 4; ++i) (*m)[i].frozen = true;
  m->Run(5000);
  for (int i = 0; i < 4; ++i) (*m)[i].frozen = false;
  m->Run(200);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(m->view(i).id, before);
}

TEST(Membership, LetsACoordinatorThatStoodStillGoOnIfNobodyHasMissedIt) {
  auto m = MembershipCluster::Agreed(3);
  const ViewId before = m->view(0).id;
  (*m)[0].frozen = true;
  m->Run(45);
  (*m)[0].frozen = false;
  m->Run(200);
  EXPECT_EQ(m->view(2).id, before);
}

TEST(Membership, SurvivesACoordinatorThatDiesBetweenProposalAndCommit) {
  auto m = MembershipCluster::Agreed(4);
  for (int i = 0; i < 4; ++i) (*m)[i].resets = 0;
  m->delivers = [](uint16_t, uint16_t to, FrameType type) {
    return !(to == 0 && type == FrameType::kAccept);
  };
  m->Kill(3);
  m->Run(75);  // node 0 has proposed a view without node 3, the others have promised
  ASSERT_EQ(m->view(1).members.size(), 4u);
  ASSERT_TRUE((m->last.count({1, FrameType::kAccept})));
  m->Kill(0);
  m->Run(200);
  EXPECT_TRUE(m->Agree());
  EXPECT_EQ(m->view(1).members.size(), 2u);
  EXPECT_EQ(m->view(1).id.coordinator, 1);
  EXPECT_EQ((*m)[1].resets + (*m)[2].resets, 0);
}

TEST(Membership, SurvivesACoordinatorThatCommitsAndIsNotHeardOfAgain) {
  auto m = MembershipCluster::Agreed(4);
  m->delivers = [](uint16_t from, uint16_t, FrameType type) {
    return from != 0 || type == FrameType::kPropose;
  };
  m->Kill(3);
  m->Run(400);
  // Node 0 is in a view that its other members have never received.
  m->delivers = nullptr;
  m->Run(400);
  EXPECT_TRUE(m->Agree());
}

TEST(Membership, LetsALeaverGoOnceItIsDrained) {
  auto m = MembershipCluster::Agreed(3);
  (*m)[1].gets_drained = false;
  m->Work(1, 30);
  m->of(1).Leave();
  m->Run(200);
  EXPECT_EQ(m->of(1).role(), Role::kLeaving);
  EXPECT_FALSE(m->of(1).left());
  EXPECT_EQ(m->view(0).synced(), 2u);
  (*m)[1].gets_drained = true;
  m->Run(60);
  EXPECT_TRUE(m->of(1).left());
  EXPECT_TRUE(m->of(1).delivered());
  EXPECT_TRUE(m->Agree());
  EXPECT_EQ(m->of(0).global_clock(), 30u);
}

TEST(Membership, HasDeliveredNothingForSureIfItWasTakenForDeadWhileLeaving) {
  auto m = MembershipCluster::Agreed(3);
  (*m)[2].gets_drained = false;
  m->of(2).Leave();
  m->Run(40);
  ASSERT_EQ(m->of(2).role(), Role::kLeaving);
  m->network().Partition(Below(2));
  m->Run(150);
  m->network().Heal();
  m->Run(100);
  EXPECT_TRUE(m->of(2).left());
  EXPECT_FALSE(m->of(2).delivered());
  EXPECT_TRUE(m->Agree());
}

TEST(Membership, IsLeftAtOnceByTheLastOne) {
  auto m = MembershipCluster::Agreed(1);
  m->of(0).Leave();
  m->Run(20);
  EXPECT_TRUE(m->of(0).left());
}

// Nodes 0 and 1 receive no frames from each other, node 2 receives both. The lower id decides;
// node 1 cannot exclude node 0.
TEST(Membership, LetsTheFirstOfTwoUnconnectedMembersDecide) {
  auto m = MembershipCluster::Agreed(3);
  m->delivers = [](uint16_t from, uint16_t to, FrameType) { return from + to != 1; };
  m->Run(400);
  for (const uint16_t node : {0, 2}) {
    EXPECT_EQ(m->view(node).members.size(), 2u);
    EXPECT_TRUE(m->view(node).Find(0));
  }
  m->delivers = nullptr;
  m->Run(200);
  EXPECT_TRUE(m->Agree());
  EXPECT_EQ(m->view(1).members.size(), 3u);
}

// Node 1 receives no frames from node 0, but node 0 receives those of node 1. Node 2 receives
// both and prevents node 1 from excluding the lower id. Node 0 excludes node 1 after node 1's
// report.
TEST(Membership, LetsNobodyDropWhoComesFirstAndLives) {
  auto m = MembershipCluster::Agreed(3);
  const ViewId before = m->view(0).id;
  m->delivers = [](uint16_t from, uint16_t to, FrameType) { return from != 0 || to != 1; };
  m->Run(100);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(m->view(i).id, before);
  EXPECT_TRUE((m->last.count({1, FrameType::kPropose})));
  m->Run(300);
  EXPECT_EQ(m->view(0).id, m->view(2).id);
  EXPECT_EQ(m->view(0).members.size(), 2u);
  EXPECT_FALSE(m->view(0).Find(1));
  m->delivers = nullptr;
  m->Run(200);
  EXPECT_TRUE(m->Agree());
}

// Node 0 loses its list of views. Its new views have other ids, so that no node takes the old
// views for their predecessors.
TEST(Membership, NamesAViewOfAnotherIncarnationDifferently) {
  auto m = MembershipCluster::Agreed(2);
  const ViewId before = m->view(1).id;
  m->delivers = [](uint16_t, uint16_t, FrameType) { return false; };
  m->Start(0, 2);
  m->Run(60);
  EXPECT_EQ(m->view(0).id, (ViewId{1, 0, 2}));
  EXPECT_TRUE(m->view(1).id == before || m->view(1).DescendsFrom(before));
  EXPECT_FALSE(m->view(1).DescendsFrom(m->view(0).id));
  m->delivers = nullptr;
  m->Run(200);
  EXPECT_TRUE(m->Agree());
  EXPECT_EQ((*m)[1].resets, 1);  // when it joined: its own view continued
}

// A reset increments the incarnation, so that a restarted node may begin with a smaller one.
TEST(Membership, TakesALaterIncarnationThanTheOthersKnowOf) {
  auto m = MembershipCluster::Agreed(3);
  for (int i = 0; i < 3; ++i) {
    m->network().Partition(Below(2));
    m->Run(150);
    m->network().Heal();
    m->Run(150);
  }
  ASSERT_TRUE(m->Agree());
  const uint32_t reached = m->of(2).incarnation();
  ASSERT_GT(reached, 2u);
  m->Start(2, 2);
  m->Run(200);
  EXPECT_TRUE(m->Agree());
  EXPECT_EQ(m->view(2).members.size(), 3u);
  EXPECT_GT(m->of(2).incarnation(), reached);
}

TEST(Membership, BecomesOneAgainAfterTwoCoordinatorsHaveGoneTheirWays) {
  auto m = MembershipCluster::Agreed(5);
  m->network().Partition(Below(2));
  m->Run(200);
  EXPECT_EQ(m->view(0).members.size(), 2u);
  EXPECT_EQ(m->view(2).members.size(), 3u);
  for (int i = 0; i < 5; ++i) (*m)[i].resets = 0;
  m->network().Heal();
  m->Run(400);
  EXPECT_TRUE(m->Agree());
  // Both sides have done equal work: the larger one continues.
  for (int i = 0; i < 5; ++i) EXPECT_EQ((*m)[i].resets, i < 2 ? 1 : 0);
}

// A proposal to node 2 by another node, with the members of node 2's view.
FrameBytes Proposal(MembershipCluster& m, ViewId id, ViewId predecessor) {
  View view = m.view(2);
  view.id = id;
  view.ancestors.insert(view.ancestors.begin(), predecessor);
  std::vector<std::byte> payload(ViewBytes(view));
  EncodeView(view, payload.data());
  FrameHeader header;
  header.type = FrameType::kPropose;
  header.source = id.coordinator;
  header.incarnation = m.of(id.coordinator).incarnation();
  header.view = m.view(id.coordinator).id;
  return sim::EncodeMembership(header, payload);
}

// The view that node 2 accepted last.
ViewId Accepted(MembershipCluster& m) {
  const std::byte* const frame = m.last[{2, FrameType::kAccept}].view().data();
  return {Get<uint32_t>(frame, kFrameHeaderBytes), Get<uint16_t>(frame, kFrameHeaderBytes + 4)};
}

TEST(Membership, AcceptsNothingBelowWhatItHasPromised) {
  auto m = MembershipCluster::Agreed(3);
  const ViewId now = m->view(2).id;
  m->delivers = [](uint16_t, uint16_t, FrameType type) { return type == FrameType::kHeartbeat; };
  m->Give(2, Proposal(*m, {now.epoch + 5, 1}, now));
  m->Run(1);
  ASSERT_EQ(Accepted(*m), (ViewId{now.epoch + 5, 1}));
  m->Give(2, Proposal(*m, {now.epoch + 3, 0}, now));
  m->Give(2, Proposal(*m, {now.epoch + 5, 0}, now));
  m->Run(1);
  EXPECT_EQ(Accepted(*m), (ViewId{now.epoch + 5, 1}));
  m->Give(2, Proposal(*m, {now.epoch + 6, 0}, now));
  m->Run(1);
  EXPECT_EQ(Accepted(*m), (ViewId{now.epoch + 6, 0}));
}

TEST(Membership, AcceptsOnlyWhatFollowsTheViewThatItIsIn) {
  auto m = MembershipCluster::Agreed(3);
  const ViewId now = m->view(2).id;
  const ViewId before = Accepted(*m);
  m->delivers = [](uint16_t, uint16_t, FrameType type) { return type == FrameType::kHeartbeat; };
  m->Give(2, Proposal(*m, {now.epoch + 5, 1}, {now.epoch - 1, 0}));
  m->Give(2, Proposal(*m, {now.epoch + 5, 1}, {now.epoch, 1}));
  m->Run(1);
  EXPECT_EQ(Accepted(*m), before);
}

// Its last diffs may be lost with a master that is not in the new view.
TEST(Membership, IsDrainedAnewInEveryView) {
  auto m = std::make_unique<MembershipCluster>(3);
  for (uint16_t node = 0; node < 2; ++node) m->Start(node);
  m->Run(200);
  ASSERT_TRUE(m->Agree());
  m->delivers = [&](uint16_t from, uint16_t, FrameType type) {
    return from != 1 || type != FrameType::kHeartbeat || m->of(1).role() == Role::kSynced;
  };
  m->of(1).Leave();
  m->Run(20);
  ASSERT_EQ(m->of(1).role(), Role::kLeaving);  // and drained, which no other node knows
  const ViewId before = m->view(1).id;
  (*m)[1].gets_drained = false;
  m->Start(2);
  m->Run(30);
  ASSERT_NE(m->view(1).id, before);
  ASSERT_EQ(m->of(1).role(), Role::kLeaving);
  m->delivers = nullptr;
  m->Run(200);
  EXPECT_FALSE(m->of(1).left());
}

// Node 2 excludes node 1. Node 1 has done more work than node 0, and node 0 more than node 2
// knows of. Each node prefers to join another one, in a cycle.
TEST(Membership, FindsOneViewWhenEachWouldRatherJoinAnother) {
  auto m = MembershipCluster::Agreed(3);
  m->network().Partition(Below(1));
  m->Run(150);
  m->Work(0, 29);
  m->Work(2, 19);
  m->Run(20);
  m->delivers = [](uint16_t from, uint16_t to, FrameType) { return from == to; };
  m->Work(1, 48);
  m->Run(10);
  (*m)[1].frozen = true;
  m->Run(150);
  ASSERT_TRUE(m->view(2).DescendsFrom(m->view(1).id));
  ASSERT_EQ(m->of(1).global_clock(), 67u);
  (*m)[1].frozen = false;
  m->delivers = nullptr;
  m->network().Heal();
  m->Run(500);
  EXPECT_TRUE(m->Agree()) << m->Describe();
}

// A heartbeat of a node without a view that asks to join `target`.
FrameBytes Intent(uint16_t node, uint32_t incarnation, ViewId target) {
  std::vector<std::byte> payload(32 + ViewBytes(View{}));
  Put<uint8_t>(payload.data(), 0, static_cast<uint8_t>(NodeStatus::Intent::kJoin));
  Put<uint32_t>(payload.data(), 4, incarnation);
  PutViewId(target, payload.data() + 8);
  EncodeView(View{}, payload.data() + 32);
  FrameHeader header;
  header.type = FrameType::kHeartbeat;
  header.source = node;
  header.destination = kAllNodes;
  header.incarnation = incarnation;
  return sim::EncodeMembership(header, payload);
}

// The next view drops the oldest ancestor of the current one. A node that asked to join that
// ancestor would not recognise the next view, and a proposal with that node would wait forever.
TEST(Membership, AsksNobodyToJoinWhoWouldNotKnowTheNextViewForWhatItAskedFor) {
  auto m = MembershipCluster::Agreed(3);
  for (uint32_t incarnation = 2; m->view(0).ancestors.size() < View::kAncestors; ++incarnation) {
    ASSERT_LT(incarnation, 20u);
    m->Start(1, incarnation);
    m->Run(150);
  }
  m->Kill(2);
  m->Run(150);
  const View view = m->view(0);
  ASSERT_EQ(view.members.size(), 2u);
  const auto proposes = [&](ViewId target) {
    m->last.erase({0, FrameType::kPropose});
    for (int i = 0; i < 10; ++i) {
      for (const uint16_t node : {0, 1}) m->Give(node, Intent(2, 100, target));
      m->Run(3);
    }
    return m->last.count({0, FrameType::kPropose}) != 0;
  };
  EXPECT_FALSE(proposes(view.ancestors.back()));
  EXPECT_EQ(m->view(0).id, view.id);
  EXPECT_TRUE(proposes(view.ancestors[View::kAncestors - 2]));
}

// A frame of `type` in which node `from` proposes `view`, or says that it is in it.
FrameBytes Naming(const View& view, FrameType type, uint16_t from) {
  const size_t status = type == FrameType::kHeartbeat ? 32 : 0;
  std::vector<std::byte> payload(status + ViewBytes(view));
  EncodeView(view, payload.data() + status);
  FrameHeader header;
  header.type = type;
  header.source = from;
  header.incarnation = 1;
  header.view = view.id;
  return sim::EncodeMembership(header, payload);
}

// Node 2 asks to join and promises a proposal and its successor. If it has promised a proposal of
// node 1 in between, nodes of that lineage may have given up their state.
TEST(Membership, JoinsTheViewBeforeItsLastPromiseUnlessItPromisedAnotherInBetween) {
  for (const bool other : {false, true}) {
    MembershipCluster m(3);
    m.Start(0);
    m.Start(1);
    m.Run(100);
    m.delivers = [](uint16_t, uint16_t, FrameType type) { return type == FrameType::kHeartbeat; };
    m.Start(2);
    m.Run(20);
    View first = m.view(0);
    ASSERT_TRUE(first.id);
    first.ancestors.insert(first.ancestors.begin(), first.id);
    first.Insert({2, Role::kJoining, 1, 0});
    View between = first, second = first;
    first.id.epoch += 10;
    between.id = {first.id.epoch + 1, 1, 1};
    second.id.epoch = first.id.epoch + 2;
    second.ancestors.insert(second.ancestors.begin(), first.id);
    m.Give(2, Naming(first, FrameType::kPropose, 0));
    if (other) m.Give(2, Naming(between, FrameType::kPropose, 1));
    m.Give(2, Naming(second, FrameType::kPropose, 0));
    m.Give(2, Naming(first, FrameType::kHeartbeat, 0));
    EXPECT_EQ(m.view(2).id, other ? ViewId{} : first.id);
  }
}

// Whether two nodes still drop the third when they have got a frame that names an extreme epoch.
bool DropsAMemberAfter(const FrameBytes& frame) {
  auto m = MembershipCluster::Agreed(3);
  for (const uint16_t node : {0, 1}) {
    m->of(node).OnFrame(frame.decoded().header, true, m->tick() * 1'000'000);
    m->of(node).Receive(frame.decoded(), m->tick() * 1'000'000);
  }
  m->Kill(2);
  m->Run(300);
  return m->Agree() && m->view(0).members.size() == 2;
}

TEST(Membership, GoesOnAfterAFrameWithTheLargestEpoch) {
  FrameHeader header;
  header.type = FrameType::kHeartbeat;
  header.source = 2;
  header.incarnation = 1;
  header.view = {kMaxEpoch, 2, 1};
  EXPECT_TRUE(DropsAMemberAfter(sim::EncodeMembership(header, {})));
  View view;
  view.id = header.view;
  view.members = {{2, Role::kSynced, 1, kMaxClock}};
  EXPECT_TRUE(DropsAMemberAfter(Naming(view, FrameType::kHeartbeat, 2)));
  EXPECT_TRUE(DropsAMemberAfter(Naming(view, FrameType::kPropose, 2)));
  for (const uint32_t step : {1u << 27, 1u << 28}) {
    for (uint32_t epoch = step; epoch < step + 5; ++epoch) {
      view.id.epoch = epoch;
      EXPECT_TRUE(DropsAMemberAfter(Naming(view, FrameType::kHeartbeat, 2)));
    }
  }
  // A promise of the largest epoch, by a node of the same view.
  auto m = MembershipCluster::Agreed(3);
  std::vector<std::byte> payload(32 + ViewBytes(m->view(0)));
  Put<uint32_t>(payload.data(), 20, kMaxEpoch);
  EncodeView(m->view(0), payload.data() + 32);
  header.view = m->view(0).id;
  EXPECT_TRUE(DropsAMemberAfter(sim::EncodeMembership(header, payload)));
}

// A node without a view does not know which epochs to expect.
TEST(Membership, JoinsAViewOfAnyEpochAndBootstrapsAfterAForgedOne) {
  MembershipCluster m(3);
  m.Start(0);
  m.Run(5);
  View view;
  view.id = {kMaxEpoch, 2, 1};
  view.members = {{2, Role::kSynced, 1, 0}};
  m.Give(0, Naming(view, FrameType::kHeartbeat, 2));
  m.Run(150);
  EXPECT_EQ(m.view(0).id, (ViewId{1, 0, 1}));
  m.Start(1);
  m.Run(150);
  EXPECT_TRUE(m.Agree()) << m.Describe();
}

TEST(Membership, TakesNoIncarnationThatNoStartCanHave) {
  MembershipCluster m(2);
  m.Start(0);
  m.Run(60);
  m.Start(1, 5);
  m.Run(1);
  View view = m.view(0);
  for (const uint32_t claimed : {kLatestIncarnation, UINT32_MAX - 1, UINT32_MAX}) {
    view.members = {{0, Role::kSynced, 1, 0}, {1, Role::kJoining, claimed, 0}};
    m.Give(1, Naming(view, FrameType::kHeartbeat, 0));
    EXPECT_EQ(m.of(1).incarnation(), 5u);
  }
  view.members[1].incarnation = kLatestIncarnation - 1;
  m.Give(1, Naming(view, FrameType::kHeartbeat, 0));
  EXPECT_EQ(m.of(1).incarnation(), kLatestIncarnation);
  m.Run(150);
  EXPECT_TRUE(m.Agree()) << m.Describe();
}

// Node 3 receives all frames except proposals.
TEST(Membership, GoesOnWithoutAJoinerThatDoesNotAnswerAndAsksItAgain) {
  MembershipCluster m(4);
  bool deaf = true;
  m.delivers = [&](uint16_t, uint16_t to, FrameType type) {
    return !deaf || to != 3 || type != FrameType::kPropose;
  };
  for (uint16_t node = 0; node < 3; ++node) m.Start(node);
  m.Run(200);
  ASSERT_TRUE(m.Agree());
  m.Start(3);
  m.Run(30);
  m.Kill(1);
  m.Run(250);
  EXPECT_FALSE(m.view(0).Find(1));
  EXPECT_FALSE(m.view(0).Find(3));
  EXPECT_EQ(m.view(2).id, m.view(0).id);
  deaf = false;
  m.Run(200);
  EXPECT_TRUE(m.Agree()) << m.Describe();
}

// A cluster of nodes 0 and 1 in which node 3 receives no proposals, and node 2 joins. Node 2 gets
// no heartbeats of nodes whose view has it, while these are held back.
struct JoinCluster : MembershipCluster {
  explicit JoinCluster(bool with_third) : MembershipCluster(4) {
    delivers = [this](uint16_t from, uint16_t to, FrameType type) {
      if (to == 3) return type != FrameType::kPropose;
      const bool has_view = to == 2 && type == FrameType::kHeartbeat && view(from).Find(2);
      return !held_back || !has_view;
    };
    Start(0);
    Start(1);
    Run(100);
    if (with_third) Start(3);
    Run(150);
    Start(2);
    while (!view(0).Find(2)) {
      if (tick() > 1000) throw Error("membership: node 2 does not join", Describe());
      Tick();
    }
  }
  bool held_back = true;
};

// Node 0 proposes the next view, with node 3, before node 2 has received the one with node 2.
TEST(Membership, AdmitsAJoinerThatHasPromisedTheSuccessorOfItsView) {
  JoinCluster m(false);
  m.Start(3);
  while (Accepted(m) <= m.view(0).id) {
    ASSERT_LT(m.tick(), 1000);
    m.Tick();
  }
  m.held_back = false;
  m.Run(20);
  EXPECT_EQ(m.view(2).id, m.view(0).id) << m.Describe();
  EXPECT_TRUE(m.view(2).Find(2));
}

TEST(Membership, AsksAgainOnlyWhenAllMembersHaveTheView) {
  JoinCluster m(true);
  const FrameBytes before = m.last[{0, FrameType::kPropose}];
  m.Run(40);
  const auto proposed = [&] { return m.last[{0, FrameType::kPropose}].view(); };
  EXPECT_TRUE(std::ranges::equal(proposed(), before.view()));
  m.held_back = false;
  m.Run(40);
  EXPECT_FALSE(std::ranges::equal(proposed(), before.view()));
  EXPECT_TRUE(m.view(2).Find(2)) << m.Describe();
}

// Ten nodes that did not answer at first are admitted together, not one after each change of view.
TEST(Membership, AdmitsTogetherAllThatAnswerWhenTheyAreAskedAgain) {
  MembershipCluster m(13);
  bool deaf = true;
  m.delivers = [&](uint16_t, uint16_t to, FrameType type) {
    return to < 2 || type != FrameType::kPropose || (!deaf && to != 12);
  };
  m.Start(0);
  m.Start(1);
  m.Run(100);
  for (uint16_t node = 2; node < 13; ++node) m.Start(node);
  m.Run(200);
  ASSERT_EQ(m.view(0).members.size(), 2u);
  const uint32_t before = m.view(0).id.epoch;
  deaf = false;
  const auto joined = [&] {
    const auto& members = m.view(0).members;
    return members.size() == 12 && std::ranges::all_of(members, [](const Member& member) {
             return member.role == Role::kSynced;
           });
  };
  while (!joined()) {
    ASSERT_LT(m.tick(), 1500) << m.Describe();
    m.Tick();
  }
  // One proposal that node 12 does not answer, one with the others, one with their new roles, and
  // up to as many that ask node 12 again.
  EXPECT_LE(m.view(0).id.epoch, before + 6);
}

// The change does not wait until the coordinator gives up the node that does not answer.
TEST(Membership, LeavesAProposalThatOnlyAsksAgainForAnotherChange) {
  MembershipCluster m(4);
  m.delivers = [&](uint16_t, uint16_t to, FrameType type) {
    return to != 3 || type != FrameType::kPropose;
  };
  m.Start(0);
  m.Start(1);
  m.Run(100);
  m.Start(3);
  m.Run(200);
  for (int start = 0; start < 60; start += 7) {
    m.Start(2, static_cast<uint32_t>(start + 1));
    int ticks = 0;
    while (!m.of(2).synced() || m.of(2).role() != Role::kSynced) {
      ASSERT_LT(++ticks, 60) << "start " << start << m.Describe();
      m.Tick();
    }
    m.Kill(2);
    m.Run(120 + start);
  }
}

TEST(Membership, KnowsHowLongANodeHasAskedToJoin) {
  MembershipCluster m(4);
  bool deaf = true;
  m.delivers = [&](uint16_t, uint16_t to, FrameType type) {
    return !deaf || to != 3 || type != FrameType::kPropose;
  };
  m.max_members = 3;
  m.Start(0);
  m.Start(1);
  m.Run(100);
  m.Start(3);
  m.Run(200);
  for (uint16_t node : {0, 1}) {
    EXPECT_GE(m.of(node).WaitsToBeAdmittedNs(3), 180'000'000);
    EXPECT_EQ(m.of(node).WaitsToBeAdmittedNs(2), 0);
    EXPECT_EQ(m.of(node).Coordinator(), 0);
  }
  m.Start(2);
  m.Run(50);
  ASSERT_TRUE(m.view(0).Find(2));
  EXPECT_EQ(m.of(0).WaitsToBeAdmittedNs(3), 0);  // it waits for room
  m.Kill(2);
  deaf = false;
  m.Run(150);
  ASSERT_TRUE(m.view(0).Find(3));
  for (uint16_t node : {0, 1}) EXPECT_EQ(m.of(node).WaitsToBeAdmittedNs(3), 0);
}

// Random restarts, crashes, loss and partitions; at the end all nodes must agree.
void Wander(uint64_t seed, uint64_t run) {
  Rng rng(seed, {1, run});
  const uint16_t count = static_cast<uint16_t>(2 + rng.Below(5));
  MembershipCluster m(count, seed + run);
  m.StartAll();
  m.network().set_faults({.loss = rng.Uniform() * 0.4});
  for (int i = 0; i < 30; ++i) {
    const uint16_t node = static_cast<uint16_t>(rng.Below(count));
    switch (rng.Below(5)) {
      case 0:
        m.Start(node, static_cast<uint32_t>(1000 * (i + 2)));
        break;
      case 1:
        m.network().Partition(rng.Next64());
        break;
      case 2:
        m[node].frozen = !m[node].frozen;
        break;
      default:
        if (m[node].membership) m.Work(node, rng.Below(20));
        m.network().Partition(0);
    }
    m.Run(static_cast<int>(rng.Below(60)));
  }
  m.network().Heal();
  for (uint16_t node = 0; node < count; ++node) m[node].frozen = false;
  m.Run(1500);
  EXPECT_TRUE(m.Agree()) << "run " << run << m.Describe();
}

// The harness checks every view change: the coordinator installed the view first, all members
// agree on it, and it contains the node.
TEST(Membership, NobodyIsEverInAViewThatWasNotAgreedOn) {
  for (uint64_t run = 0; run < 150 && !HasFailure(); ++run) Wander(test::Seed(), run);
}

}  // namespace
}  // namespace millrace
