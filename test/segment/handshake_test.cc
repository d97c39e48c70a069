#include "segment/handshake/handshake.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/crc32c.h"
#include "base/wire_bytes.h"
#include "test/sim/handshake_cluster.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using sim::ConfigOf;
using sim::CountOf;
using sim::HandshakeCluster;
using sim::KeyOf;
using sim::kMs;
using sim::SentHandshake;

HandshakeMessage Decoded(const SentHandshake& frame) {
  HandshakeMessage in;
  EXPECT_EQ(DecodeHandshake(frame.bytes, &in), DropReason::kNone);
  return in;
}

std::optional<SentHandshake> LastFrom(const HandshakeCluster& cluster, NodeId from, NodeId to) {
  std::optional<SentHandshake> last;
  for (const SentHandshake& frame : cluster.sent()) {
    if (frame.from == from && frame.to == to) last = frame;
  }
  return last;
}

void ExpectSessionsAndThenNoFrames(HandshakeCluster* cluster, size_t max_frames) {
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->AllEstablished(); }, 60'000));
  cluster->Run(3'000);  // pending replies
  const size_t sent = cluster->sent().size();
  EXPECT_LE(sent, max_frames);
  cluster->Run(30'000);
  EXPECT_EQ(cluster->sent().size(), sent);
}

TEST(Handshake, TwoNodesEstablishASessionAtOnceAndSendNoMore) {
  HandshakeCluster cluster(2);
  cluster.StartAll();
  EXPECT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 10));
  ExpectSessionsAndThenNoFrames(&cluster, 8);
}

TEST(Handshake, ThreeNodesWithAKeyMeetByMulticast) {
  const SecretKey key = KeyOf(1);
  HandshakeCluster cluster(3);
  cluster.StartAll(&key, true);
  EXPECT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 20));
  ExpectSessionsAndThenNoFrames(&cluster, 40);
  EXPECT_EQ(cluster.sent().front().to, kAllNodes);
}

TEST(Handshake, NodesMeetOverLinksThatLoseDuplicateAndReorder) {
  const SecretKey key = KeyOf(1);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const size_t nodes = 2 + seed % 3;
    HandshakeCluster cluster(nodes, {.loss = 0.5, .duplicate = 0.3, .delay_max = 41}, seed);
    cluster.StartAll(seed % 2 == 0 ? &key : nullptr, seed % 4 < 2);
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 120'000));
    for (size_t i = 0; i < nodes; ++i) {
      ConfigMismatch mismatch;
      EXPECT_FALSE(cluster.node(static_cast<NodeId>(i)).NextMismatch(&mismatch));
      EXPECT_EQ(cluster.node(static_cast<NodeId>(i)).stats().sessions, nodes - 1);
    }
  }
}

TEST(Handshake, APeerIsReportedOncePerSession) {
  HandshakeCluster cluster(3);
  cluster.StartAll();
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 100));
  EXPECT_TRUE(cluster.node(0).IsEstablished(1) && cluster.node(0).IsEstablished(2));
  std::map<NodeId, Nonce> reported;
  PeerSession peer;
  while (cluster.node(0).NextSession(&peer)) {
    EXPECT_TRUE(reported.emplace(peer.node, peer.session_id).second);
  }
  EXPECT_EQ(reported, (std::map<NodeId, Nonce>{{1, cluster.node(1).session_id()},
                                               {2, cluster.node(2).session_id()}}));
  cluster.Run(5'000);
  EXPECT_FALSE(cluster.node(0).NextSession(&peer));
}

TEST(Handshake, ANodeThatRestartsReplacesItsOldSessionOnlyOnceTheNewOneIsAuthenticated) {
  const SecretKey key = KeyOf(1);
  HandshakeCluster cluster(2);
  cluster.StartAll(&key);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 100));
  const Nonce old = cluster.node(1).session_id();
  // The new incarnation sends but receives nothing, so it cannot echo a challenge.
  cluster.tamper = [](SentHandshake* frame) { return frame->from == 1; };
  cluster.Start(ConfigOf(1, 2, 2), &key);
  ASSERT_NE(cluster.node(1).session_id(), old);
  cluster.Run(3'000);
  EXPECT_EQ(cluster.node(0).Peer(1)->session_id, old);
  EXPECT_GT(CountOf(cluster.node(0), DropReason::kUnauthenticated), 0u);
  cluster.tamper = nullptr;
  EXPECT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 5'000));
  EXPECT_EQ(cluster.node(0).Peer(1)->incarnation, 2u);
  EXPECT_EQ(cluster.node(0).stats().sessions, 2u);
}

TEST(Handshake, ManyStartsOfOneNodeAreAllMetOverABadLink) {
  HandshakeCluster cluster(3, {.loss = 0.3, .duplicate = 0.3, .delay_max = 31});
  cluster.StartAll();
  for (uint32_t incarnation = 2; incarnation < 12; ++incarnation) {
    cluster.Start(ConfigOf(1, 3, incarnation));
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 120'000)) << incarnation;
  }
}

TEST(Handshake, ARecordedSessionIsNotAccepted) {
  for (const bool keyed : {false, true}) {
    const SecretKey key = KeyOf(1);
    const SecretKey* const used = keyed ? &key : nullptr;
    HandshakeCluster cluster(2);
    cluster.StartAll(used);
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 100));
    const std::vector<SentHandshake> recorded = cluster.sent();
    // Node a restarts and b is gone: only the recorded frames arrive.
    Handshake anew(ConfigOf(0, 2, 2), used, sim::SeededRandom(0, 99));
    for (int64_t now = 0; now < 20'000 * kMs; now += 50 * kMs) {
      for (const SentHandshake& frame : recorded) anew.Receive(frame.from, frame.bytes, now);
      OutHandshake room[4];
      anew.Send(room, now);
    }
    EXPECT_FALSE(anew.IsEstablished(1));
    EXPECT_FALSE(anew.MismatchOf(1).has_value());
    EXPECT_GT(CountOf(anew, DropReason::kUnauthenticated), 0u);
    EXPECT_GT(CountOf(anew, DropReason::kSelf), 0u);
    EXPECT_EQ(CountOf(anew, DropReason::kNone), 0u);
  }
}

TEST(Handshake, ARecordingOfAnEarlierSessionDoesNotReplaceTheCurrentOne) {
  HandshakeCluster cluster(2);
  cluster.StartAll();
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 100));
  const std::vector<SentHandshake> recorded = cluster.sent();
  cluster.Start(ConfigOf(1, 2, 2));
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 5'000));
  const Nonce session_id = cluster.node(1).session_id();
  for (const SentHandshake& frame : recorded) {
    if (frame.from == 1) cluster.node(0).Receive(1, frame.bytes, cluster.now());
  }
  cluster.Run(5'000);
  EXPECT_EQ(cluster.node(0).Peer(1)->session_id, session_id);
  EXPECT_TRUE(cluster.AllEstablished());
}

// `repaired`: the checksum is recomputed, as a forger can do.
void ExpectFlippedBitsRefused(const SecretKey* key, bool repaired) {
  HandshakeCluster cluster(2);
  cluster.StartAll(key);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 100));
  const SentHandshake good = *LastFrom(cluster, 1, 0);
  ASSERT_EQ(cluster.node(0).Receive(1, good.bytes, cluster.now()), DropReason::kNone);
  for (size_t bit = 0; bit < 8 * kHandshakeBytes; ++bit) {
    HandshakeBytes bytes = good.bytes;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    if (repaired && bit / 8 < 188) Put<uint32_t>(bytes.data(), 188, Crc32c({bytes.data(), 188}));
    EXPECT_NE(cluster.node(0).Receive(1, bytes, cluster.now()), DropReason::kNone) << bit;
  }
  EXPECT_GE(CountOf(cluster.node(0), repaired ? DropReason::kBadTag : DropReason::kChecksum), 128u);
  EXPECT_TRUE(cluster.AllEstablished());
}

TEST(Handshake, AnyFlippedBitIsRefused) {
  const SecretKey key = KeyOf(1);
  ExpectFlippedBitsRefused(nullptr, false);
  ExpectFlippedBitsRefused(&key, false);
  ExpectFlippedBitsRefused(&key, true);
}

TEST(Handshake, AChallengeThatWasEchoedIsNotAskedAgain) {
  HandshakeCluster cluster(2);
  cluster.StartAll();
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 100));
  Nonce echoed = kNoNonce;
  for (const SentHandshake& frame : cluster.sent()) {
    if (frame.from == 1) echoed = Decoded(frame).echo;
  }
  ASSERT_NE(echoed, kNoNonce);
  cluster.Start(ConfigOf(1, 2, 2));
  cluster.Run(3);
  const HandshakeMessage next = Decoded(*LastFrom(cluster, 0, 1));
  EXPECT_NE(next.challenge, kNoNonce);
  EXPECT_NE(next.challenge, echoed);
}

// A man in the middle presents the frames of each node as those of the other.
TEST(Handshake, SwappedIdsAreNotAccepted) {
  const SecretKey key = KeyOf(1);
  for (const SecretKey* used : {static_cast<const SecretKey*>(nullptr), &key}) {
    HandshakeCluster cluster(3);
    cluster.tamper = [](SentHandshake* frame) {
      const auto swapped = [](NodeId node) -> NodeId { return node == 0 ? 0 : 3 - node; };
      if (frame->to == kAllNodes) return false;
      frame->from = swapped(frame->from);
      frame->to = swapped(frame->to);
      Put<uint16_t>(frame->bytes.data(), 16, frame->from);
      Put<uint16_t>(frame->bytes.data(), 18, frame->to);
      Put<uint32_t>(frame->bytes.data(), 188, Crc32c({frame->bytes.data(), 188}));
      return true;
    };
    cluster.StartAll(used);
    cluster.Run(20'000);
    EXPECT_FALSE(cluster.node(0).IsEstablished(1));
    EXPECT_FALSE(cluster.node(0).IsEstablished(2));
    ASSERT_TRUE(cluster.node(0).MismatchOf(1).has_value());
    EXPECT_EQ(cluster.node(0).MismatchOf(1)->text,
              used != nullptr ? "node b uses another key" : "node 1 names itself c, expected b");
  }
}

TEST(Handshake, ASenderIsWhoTheTransportSaysItIs) {
  HandshakeCluster cluster(3);
  cluster.StartAll();
  cluster.Run(10);
  const SentHandshake frame = *LastFrom(cluster, 1, 0);
  EXPECT_EQ(cluster.node(0).Receive(2, frame.bytes, cluster.now()), DropReason::kSourceMismatch);
}

TEST(Handshake, ForeignFramesAreCountedByReason) {
  Handshake node(ConfigOf(0, 2), nullptr, sim::SeededRandom(0, 0));
  HandshakeMessage in;
  in.run = sim::kRun;
  in.source = 1;
  in.name = "b";
  in.session_id = {std::byte{1}};
  const auto received = [&](const HandshakeMessage& each, NodeId from) {
    HandshakeBytes bytes;
    EncodeHandshake(each, &bytes);
    return node.Receive(from, bytes, 0);
  };
  EXPECT_EQ(received(in, 1), DropReason::kUnauthenticated);
  HandshakeMessage other = in;
  other.run = 1;
  EXPECT_EQ(received(other, 1), DropReason::kRun);
  other = in;
  other.source = 0;
  EXPECT_EQ(received(other, 0), DropReason::kSelf);
  other = in;
  other.source = 9;
  EXPECT_EQ(received(other, 9), DropReason::kStranger);
  other = in;
  other.destination = 5;
  other.challenge = in.session_id;
  EXPECT_EQ(received(other, 1), DropReason::kDestination);
  other = in;
  other.session_id = kNoNonce;
  EXPECT_EQ(received(other, 1), DropReason::kField);
  other = in;
  other.challenge = in.session_id;  // in a message to all nodes
  EXPECT_EQ(received(other, 1), DropReason::kField);
  other = in;
  other.known_incarnation = 1;  // without a session id
  EXPECT_EQ(received(other, 1), DropReason::kField);
  EXPECT_EQ(node.Receive(1, {}, 0), DropReason::kLength);
  EXPECT_EQ(node.Receive(1, HandshakeBytes{}, 0), DropReason::kMagic);
  for (DropReason drop :
       {DropReason::kUnauthenticated, DropReason::kRun, DropReason::kSelf, DropReason::kStranger,
        DropReason::kDestination, DropReason::kLength, DropReason::kMagic}) {
    EXPECT_EQ(CountOf(node, drop), 1u) << DropReasonName(drop);
  }
  EXPECT_EQ(CountOf(node, DropReason::kField), 3u);
  EXPECT_FALSE(node.MismatchOf(1).has_value());
}

// ---- Send rates. --------------------------------------------------------------

TEST(Handshake, AnAbsentPeerIsAskedForLessAndLessOften) {
  Handshake node(ConfigOf(0, 2), nullptr, sim::SeededRandom(0, 0));
  std::vector<int64_t> sent;
  for (int64_t now = 0; now < 20'000 * kMs; now += kMs) {
    OutHandshake room[2];
    const bool due = node.NextEvent() <= now;
    const size_t count = node.Send(room, now);
    EXPECT_LE(count, due ? 1u : 0u);
    if (count > 0) sent.push_back(now / kMs);
  }
  ASSERT_GT(sent.size(), 14u);
  ASSERT_LT(sent.size(), 24u);
  EXPECT_EQ(sent[0], 0);
  EXPECT_GE(sent[1], 100);
  EXPECT_LE(sent[1], 151);
  for (size_t i = 5; i < sent.size(); ++i) {
    EXPECT_GE(sent[i] - sent[i - 1], 1'000);
    EXPECT_LE(sent[i] - sent[i - 1], 1'501);
  }
}

TEST(Handshake, AFloodOfQuestionsIsAnsweredAFewTimesASecond) {
  const SecretKey key = KeyOf(1);
  HandshakeCluster cluster(2);
  cluster.StartAll(&key);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 100));
  cluster.Run(10'000);
  const SentHandshake question = cluster.sent().front();
  ASSERT_TRUE(Decoded(question).wants_answer);
  Handshake& asked = cluster.node(question.to);
  const uint64_t before = asked.stats().sent;
  for (int64_t i = 0; i < 100'000; ++i) {  // ten per millisecond
    const int64_t now = cluster.now() + i * kMs / 10;
    asked.Receive(question.from, question.bytes, now);
    OutHandshake room[4];
    asked.Send(room, now);
  }
  EXPECT_LE(asked.stats().sent - before, 14u);
  EXPECT_GE(asked.stats().sent - before, 10u);
  EXPECT_GT(asked.stats().rate_limited, 99'000u);
}

TEST(Handshake, WhoLooksForOthersIsNotAnsweredByThoseItKnows) {
  HandshakeCluster cluster(4);
  cluster.StartAll(nullptr, true);
  cluster.Stop(2);
  cluster.Stop(3);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 5'000));
  cluster.Run(5'000);
  const size_t before = cluster.sent().size();
  cluster.Run(10'000);
  ASSERT_GT(cluster.sent().size(), before + 10);
  for (size_t i = before; i < cluster.sent().size(); ++i) {
    EXPECT_EQ(cluster.sent()[i].to, kAllNodes);
  }
}

TEST(Handshake, LittleRoomStarvesNobody) {
  Handshake node(ConfigOf(0, 20), nullptr, sim::SeededRandom(0, 0));
  std::map<NodeId, int> sent;
  for (int64_t now = 0; now < 40'000 * kMs; now += 200 * kMs) {
    OutHandshake room[1];
    if (node.Send(room, now) > 0) ++sent[room[0].to];
  }
  EXPECT_EQ(sent.size(), 19u);
  for (const auto& [peer, count] : sent) EXPECT_GE(count, 7) << peer;
}

TEST(Handshake, AConfigurationWithoutSenseIsRefused) {
  const auto error = [](const HandshakeConfig& config) {
    return test::ErrorOf([&] { Handshake(config, nullptr, sim::SeededRandom(0, 0)); });
  };
  HandshakeConfig config = ConfigOf(0, 2);
  config.node = 2;
  EXPECT_CONTAINS(error(config), "node 2: no node of the cluster has this id");
  config = ConfigOf(0, 2);
  config.settings.max_nodes = 1;
  EXPECT_CONTAINS(error(config), "max_nodes is 1; expected 2");
  config = ConfigOf(0, 2);
  config.names[1] = std::string(65, 'x');
  EXPECT_CONTAINS(error(config), "expected a name of at most 64");
}

}  // namespace
}  // namespace millrace
