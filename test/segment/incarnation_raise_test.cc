// A node takes a larger incarnation if a peer knows one at least as large as its own. Only a
// handshake that is neither forged nor replayed has this effect, and the number of raises is
// bounded.
#include <gtest/gtest.h>

#include <optional>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/wire_bytes.h"
#include "test/sim/handshake_cluster.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using sim::ConfigOf;
using sim::HandshakeCluster;
using sim::KeyOf;
using sim::SentHandshake;

constexpr size_t kAtKnown = 104, kAtKnownIncarnation = 184, kAtChecksum = 188;

std::vector<IncarnationRaise> Raises(Handshake* node) {
  std::vector<IncarnationRaise> all;
  for (IncarnationRaise raise; node->TakeRaise(&raise);) all.push_back(raise);
  return all;
}

const SecretKey* KeyIf(bool keyed) {
  static const SecretKey key = KeyOf(1);
  return keyed ? &key : nullptr;
}

// Node b, known by the incarnation `known`, restarts with `incarnation`.
void StartAgain(HandshakeCluster* cluster, bool keyed, uint32_t known, uint32_t incarnation) {
  cluster->StartAll(KeyIf(keyed));
  cluster->Start(ConfigOf(1, 2, known), KeyIf(keyed));
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->AllEstablished(); }, 5'000));
  cluster->Run(3'000);
  cluster->Start(ConfigOf(1, 2, incarnation), KeyIf(keyed));
}

TEST(Raise, ANodeThatIsKnownByALaterStartGoesOnWithTheNextIncarnation) {
  for (const bool keyed : {false, true}) {
    for (const uint32_t incarnation : {1u, 6u, 7u}) {
      HandshakeCluster cluster(2, {.loss = 0.2, .duplicate = 0.2, .delay_max = 21});
      StartAgain(&cluster, keyed, 7, incarnation);
      const Nonce session_id = cluster.node(1).session_id();
      ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 60'000));
      EXPECT_EQ(cluster.node(1).incarnation(), 8u);
      EXPECT_NE(cluster.node(1).session_id(), session_id);
      EXPECT_EQ(cluster.node(0).Peer(1)->incarnation, 8u);
      EXPECT_EQ(cluster.node(0).stats().sessions, 2u);
      IncarnationRaise raise;
      ASSERT_TRUE(cluster.node(1).TakeRaise(&raise));
      EXPECT_EQ(raise.peer, 0);
      EXPECT_EQ(raise.refused, incarnation);
      EXPECT_EQ(raise.known, 7u);
      EXPECT_FALSE(cluster.node(1).TakeRaise(&raise));
      EXPECT_EQ(cluster.node(1).Verdict(cluster.now()), JoinVerdict::kMayJoin);
    }
  }
}

TEST(Raise, ALaterStartIsNotRaised) {
  HandshakeCluster cluster(2);
  StartAgain(&cluster, false, 7, 8);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 60'000));
  EXPECT_EQ(cluster.node(1).incarnation(), 8u);
  EXPECT_TRUE(Raises(&cluster.node(1)).empty());
}

// Two peers know different later starts; the node raises its incarnation above both.
TEST(Raise, EachPeerIsCaughtUpWithAndTheOthersMeetTheNodeAnew) {
  HandshakeCluster cluster(4);
  cluster.StartAll();
  for (const auto& [peer, known] : {std::pair{0, 7u}, {2, 20u}}) {
    cluster.tamper = [peer = peer](SentHandshake* frame) {
      return (frame->from == 1 || frame->to == 1) && (frame->from == peer || frame->to == peer);
    };
    cluster.Start(ConfigOf(1, 4, known));
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.node(1).IsConfirmed(peer); }, 5'000));
  }
  cluster.tamper = nullptr;
  cluster.Start(ConfigOf(1, 4, 3));
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 10'000));
  EXPECT_EQ(cluster.node(1).incarnation(), 21u);
  for (const NodeId peer : {0, 2, 3}) EXPECT_EQ(cluster.node(peer).Peer(1)->incarnation, 21u);
}

// Alters a message of node a as a forger would.
void Claim(SentHandshake* frame, uint32_t known_incarnation) {
  if (frame->from != 0 || frame->to != 1) return;
  frame->bytes[kAtKnown] ^= std::byte{2};  // another session than node b's
  Put<uint32_t>(frame->bytes.data(), kAtKnownIncarnation, known_incarnation);
  Put<uint32_t>(frame->bytes.data(), kAtChecksum, Crc32c({frame->bytes.data(), kAtChecksum}));
}

TEST(Raise, ForgedRefusalsDoNothingWhereThereIsAKey) {
  HandshakeCluster cluster(2);
  cluster.tamper = [](SentHandshake* frame) {
    Claim(frame, 4'000'000);
    return true;
  };
  cluster.StartAll(KeyIf(true));
  cluster.Run(10'000);
  EXPECT_EQ(cluster.node(1).incarnation(), 1u);
  EXPECT_TRUE(Raises(&cluster.node(1)).empty());
}

// Without a key a forger that sees the challenges can cause a raise, but only one, and a bounded
// one.
TEST(Raise, ForgedRefusalsAreBoundedWhereThereIsNoKey) {
  for (const uint32_t claimed : {UINT32_MAX, kLatestIncarnation}) {
    HandshakeCluster cluster(2);
    cluster.tamper = [claimed](SentHandshake* frame) {
      Claim(frame, claimed);
      return true;
    };
    cluster.StartAll();
    cluster.Run(12'000);
    EXPECT_EQ(cluster.node(1).incarnation(), 1u);
    EXPECT_EQ(cluster.node(1).Verdict(cluster.now()), JoinVerdict::kGiveUp);
    EXPECT_EQ(cluster.node(1).verdict_reason(),
              StrCat("node a knows a later start of this node: ", claimed, ", here 1"));
  }
  HandshakeCluster cluster(2);
  uint32_t claimed = 100;
  cluster.tamper = [&](SentHandshake* frame) {
    Claim(frame, claimed++);
    return true;
  };
  cluster.StartAll();
  cluster.Run(60'000);
  EXPECT_GT(claimed, 110u);
  EXPECT_EQ(Raises(&cluster.node(1)).size(), 1u);
  EXPECT_LT(cluster.node(1).incarnation(), 110u);
}

TEST(Raise, RecordedRefusalsDoNothing) {
  for (const bool keyed : {false, true}) {
    HandshakeCluster cluster(2);
    StartAgain(&cluster, keyed, 7, 3);
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 5'000));
    const std::vector<SentHandshake> recorded = cluster.sent();
    Handshake anew(ConfigOf(1, 2, 5), KeyIf(keyed), sim::SeededRandom(1, 99));
    for (int64_t now = 0; now < 20'000 * sim::kMs; now += 50 * sim::kMs) {
      for (const SentHandshake& frame : recorded) anew.Receive(frame.from, frame.bytes, now);
      OutHandshake room[4];
      anew.Send(room, now);
    }
    EXPECT_EQ(anew.incarnation(), 5u);
  }
}

// Both processes run as node b, and each receives the frames meant for the other. Node a restarts
// again and again, and meets both.
TEST(Raise, TwoProcessesOfOneNodeDoNotRaiseEachOtherWithoutEnd) {
  Handshake first(ConfigOf(1, 2, 5), nullptr, sim::SeededRandom(1, 1));
  Handshake second(ConfigOf(1, 2, 5), nullptr, sim::SeededRandom(1, 2));
  size_t raises = 0, frames = 0;
  for (uint32_t start = 1; start <= 20; ++start) {
    Handshake a(ConfigOf(0, 2, start), nullptr, sim::SeededRandom(0, start));
    for (int64_t now = start * 30'000 * sim::kMs, end = now + 30'000 * sim::kMs; now < end;
         now += 20 * sim::kMs) {
      const bool swapped = start % 2 == 0;
      for (Handshake* b : {swapped ? &second : &first, swapped ? &first : &second}) {
        OutHandshake room[4];
        for (const auto& out : std::span(room).first(b->Send(room, now))) {
          a.Receive(1, out.bytes, now);
          ++frames;
        }
        for (const auto& out : std::span(room).first(a.Send(room, now))) {
          for (Handshake* each : {&first, &second}) each->Receive(0, out.bytes, now);
        }
        raises += Raises(b).size();
      }
    }
  }
  EXPECT_EQ(raises, 2u);  // one each, because of node a
  EXPECT_LE(first.incarnation() + second.incarnation(), 6u + 7u);
  EXPECT_LT(frames, 2'400u);  // at most two per second
  const std::string reasons = first.verdict_reason() + second.verdict_reason();
  EXPECT_CONTAINS(reasons, "node a knows a later start of this node: 7, here 6");
}

}  // namespace
}  // namespace millrace
