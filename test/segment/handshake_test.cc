#include "segment/handshake/handshake.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/crc32c.h"
#include "base/wire_bytes.h"
#include "test/segment/handshake_harness.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::Carried;
using test::ConfigOf;
using test::CountOf;
using test::HandshakeHarness;
using test::KeyOf;
using test::kMs;

HandshakeMessage Decoded(const Carried& frame) {
  HandshakeMessage in;
  EXPECT_EQ(DecodeHandshake(frame.bytes, &in), DropReason::kNone);
  return in;
}

std::optional<Carried> LastFrom(const HandshakeHarness& harness, NodeId from, NodeId to) {
  std::optional<Carried> last;
  for (const Carried& frame : harness.sent()) {
    if (frame.from == from && frame.to == to) last = frame;
  }
  return last;
}

void ExpectSessionsAndThenNoFrames(HandshakeHarness* harness, size_t most_frames) {
  ASSERT_TRUE(harness->RunUntil([&] { return harness->AllMet(); }, 60'000));
  harness->Run(3'000);  // pending replies
  const size_t sent = harness->sent().size();
  EXPECT_LE(sent, most_frames);
  harness->Run(30'000);
  EXPECT_EQ(harness->sent().size(), sent);
}

TEST(Handshake, TwoNodesEstablishASessionAtOnceAndSendNoMore) {
  HandshakeHarness harness(2);
  harness.StartAll();
  EXPECT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 10));
  ExpectSessionsAndThenNoFrames(&harness, 8);
}

TEST(Handshake, ThreeNodesWithAKeyMeetByMulticast) {
  const SecretKey key = KeyOf(1);
  HandshakeHarness harness(3);
  harness.StartAll(&key, true);
  EXPECT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 20));
  ExpectSessionsAndThenNoFrames(&harness, 40);
  EXPECT_EQ(harness.sent().front().to, kAllNodes);
}

TEST(Handshake, NodesMeetOverLinksThatLoseDuplicateAndReorder) {
  const SecretKey key = KeyOf(1);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const size_t nodes = 2 + seed % 3;
    HandshakeHarness harness(nodes, {0.5, 0.3, kMs, 40 * kMs}, seed);
    harness.StartAll(seed % 2 == 0 ? &key : nullptr, seed % 4 < 2);
    ASSERT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 120'000));
    for (size_t i = 0; i < nodes; ++i) {
      ConfigMismatch mismatch;
      EXPECT_FALSE(harness.node(static_cast<NodeId>(i)).NextMismatch(&mismatch));
      EXPECT_EQ(harness.node(static_cast<NodeId>(i)).stats().sessions, nodes - 1);
    }
  }
}

TEST(Handshake, APeerIsReportedOncePerSession) {
  HandshakeHarness harness(3);
  harness.StartAll();
  ASSERT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 100));
  EXPECT_TRUE(harness.node(0).IsEstablished(1) && harness.node(0).IsEstablished(2));
  std::map<NodeId, Nonce> reported;
  PeerSession peer;
  while (harness.node(0).NextSession(&peer)) {
    EXPECT_TRUE(reported.emplace(peer.node, peer.session_id).second);
  }
  EXPECT_EQ(reported, (std::map<NodeId, Nonce>{{1, harness.node(1).session_id()},
                                               {2, harness.node(2).session_id()}}));
  harness.Run(5'000);
  EXPECT_FALSE(harness.node(0).NextSession(&peer));
}

TEST(Handshake, ANodeThatRestartsReplacesItsOldSessionOnlyOnceTheNewOneIsAuthenticated) {
  const SecretKey key = KeyOf(1);
  HandshakeHarness harness(2);
  harness.StartAll(&key);
  ASSERT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 100));
  const Nonce old = harness.node(1).session_id();
  // The new incarnation sends but receives nothing, so it cannot echo a challenge.
  harness.set_tamper([](Carried* frame) { return frame->from == 1; });
  harness.Start(ConfigOf(1, 2, 2), &key);
  ASSERT_NE(harness.node(1).session_id(), old);
  harness.Run(3'000);
  EXPECT_EQ(harness.node(0).Peer(1)->session_id, old);
  EXPECT_GT(CountOf(harness.node(0), DropReason::kUnauthenticated), 0u);
  harness.set_tamper(nullptr);
  EXPECT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 5'000));
  EXPECT_EQ(harness.node(0).Peer(1)->incarnation, 2u);
  EXPECT_EQ(harness.node(0).stats().sessions, 2u);
}

TEST(Handshake, ManyStartsOfOneNodeAreAllMetOverABadLink) {
  HandshakeHarness harness(3, {0.3, 0.3, kMs, 30 * kMs});
  harness.StartAll();
  for (uint32_t incarnation = 2; incarnation < 12; ++incarnation) {
    harness.Start(ConfigOf(1, 3, incarnation));
    ASSERT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 120'000)) << incarnation;
  }
}

TEST(Handshake, ARecordedSessionIsNotAccepted) {
  for (const bool keyed : {false, true}) {
    const SecretKey key = KeyOf(1);
    const SecretKey* const used = keyed ? &key : nullptr;
    HandshakeHarness harness(2);
    harness.StartAll(used);
    ASSERT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 100));
    const std::vector<Carried> recorded = harness.sent();
    // Node a restarts and b is gone: only the recorded frames arrive.
    Handshake anew(ConfigOf(0, 2, 2), used, test::SeededRandom(0, 99));
    for (int64_t now = 0; now < 20'000 * kMs; now += 50 * kMs) {
      for (const Carried& frame : recorded) anew.Receive(frame.from, frame.bytes, now);
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
  HandshakeHarness harness(2);
  harness.StartAll();
  ASSERT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 100));
  const std::vector<Carried> recorded = harness.sent();
  harness.Start(ConfigOf(1, 2, 2));
  ASSERT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 5'000));
  const Nonce session_id = harness.node(1).session_id();
  for (const Carried& frame : recorded) {
    if (frame.from == 1) harness.node(0).Receive(1, frame.bytes, harness.now());
  }
  harness.Run(5'000);
  EXPECT_EQ(harness.node(0).Peer(1)->session_id, session_id);
  EXPECT_TRUE(harness.AllMet());
}

// `repaired`: the checksum is recomputed, as a forger can do.
void ExpectFlippedBitsRefused(const SecretKey* key, bool repaired) {
  HandshakeHarness harness(2);
  harness.StartAll(key);
  ASSERT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 100));
  const Carried good = *LastFrom(harness, 1, 0);
  ASSERT_EQ(harness.node(0).Receive(1, good.bytes, harness.now()), DropReason::kNone);
  for (size_t bit = 0; bit < 8 * kHandshakeBytes; ++bit) {
    HandshakeBytes bytes = good.bytes;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    if (repaired && bit / 8 < 188) Put<uint32_t>(bytes.data(), 188, Crc32c({bytes.data(), 188}));
    EXPECT_NE(harness.node(0).Receive(1, bytes, harness.now()), DropReason::kNone) << bit;
  }
  EXPECT_GE(CountOf(harness.node(0), repaired ? DropReason::kBadTag : DropReason::kChecksum), 128u);
  EXPECT_TRUE(harness.AllMet());
}

TEST(Handshake, AnyFlippedBitIsRefused) {
  const SecretKey key = KeyOf(1);
  ExpectFlippedBitsRefused(nullptr, false);
  ExpectFlippedBitsRefused(&key, false);
  ExpectFlippedBitsRefused(&key, true);
}

TEST(Handshake, AChallengeThatWasEchoedIsNotAskedAgain) {
  HandshakeHarness harness(2);
  harness.StartAll();
  ASSERT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 100));
  Nonce echoed = kNoNonce;
  for (const Carried& frame : harness.sent()) {
    if (frame.from == 1) echoed = Decoded(frame).echo;
  }
  ASSERT_NE(echoed, kNoNonce);
  harness.Start(ConfigOf(1, 2, 2));
  harness.Run(3);
  const HandshakeMessage next = Decoded(*LastFrom(harness, 0, 1));
  EXPECT_NE(next.challenge, kNoNonce);
  EXPECT_NE(next.challenge, echoed);
}

// A man in the middle presents the frames of each node as those of the other.
TEST(Handshake, SwappedIdsAreNotAccepted) {
  const SecretKey key = KeyOf(1);
  for (const SecretKey* used : {static_cast<const SecretKey*>(nullptr), &key}) {
    HandshakeHarness harness(3);
    harness.set_tamper([](Carried* frame) {
      const auto swapped = [](NodeId node) -> NodeId { return node == 0 ? 0 : 3 - node; };
      if (frame->to == kAllNodes) return false;
      frame->from = swapped(frame->from);
      frame->to = swapped(frame->to);
      Put<uint16_t>(frame->bytes.data(), 16, frame->from);
      Put<uint16_t>(frame->bytes.data(), 18, frame->to);
      Put<uint32_t>(frame->bytes.data(), 188, Crc32c({frame->bytes.data(), 188}));
      return true;
    });
    harness.StartAll(used);
    harness.Run(20'000);
    EXPECT_FALSE(harness.node(0).IsEstablished(1));
    EXPECT_FALSE(harness.node(0).IsEstablished(2));
    ASSERT_TRUE(harness.node(0).MismatchOf(1).has_value());
    EXPECT_EQ(harness.node(0).MismatchOf(1)->text,
              used != nullptr ? "node b uses another key" : "node 1 names itself c, expected b");
  }
}

TEST(Handshake, ASenderIsWhoTheTransportSaysItIs) {
  HandshakeHarness harness(3);
  harness.StartAll();
  harness.Run(10);
  const Carried frame = *LastFrom(harness, 1, 0);
  EXPECT_EQ(harness.node(0).Receive(2, frame.bytes, harness.now()), DropReason::kSourceMismatch);
}

TEST(Handshake, ForeignFramesAreCountedByReason) {
  Handshake node(ConfigOf(0, 2), nullptr, test::SeededRandom(0, 0));
  HandshakeMessage in;
  in.run = test::kRun;
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
  Handshake node(ConfigOf(0, 2), nullptr, test::SeededRandom(0, 0));
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
  HandshakeHarness harness(2);
  harness.StartAll(&key);
  ASSERT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 100));
  harness.Run(10'000);
  const Carried question = harness.sent().front();
  ASSERT_TRUE(Decoded(question).wants_answer);
  Handshake& asked = harness.node(question.to);
  const uint64_t before = asked.stats().sent;
  for (int64_t i = 0; i < 100'000; ++i) {  // ten per millisecond
    const int64_t now = harness.now() + i * kMs / 10;
    asked.Receive(question.from, question.bytes, now);
    OutHandshake room[4];
    asked.Send(room, now);
  }
  EXPECT_LE(asked.stats().sent - before, 14u);
  EXPECT_GE(asked.stats().sent - before, 10u);
  EXPECT_GT(asked.stats().rate_limited, 99'000u);
}

TEST(Handshake, WhoLooksForOthersIsNotAnsweredByThoseItKnows) {
  HandshakeHarness harness(4);
  harness.StartAll(nullptr, true);
  harness.Stop(2);
  harness.Stop(3);
  ASSERT_TRUE(harness.RunUntil([&] { return harness.AllMet(); }, 5'000));
  harness.Run(5'000);
  const size_t before = harness.sent().size();
  harness.Run(10'000);
  ASSERT_GT(harness.sent().size(), before + 10);
  for (size_t i = before; i < harness.sent().size(); ++i) {
    EXPECT_EQ(harness.sent()[i].to, kAllNodes);
  }
}

TEST(Handshake, LittleRoomStarvesNobody) {
  Handshake node(ConfigOf(0, 20), nullptr, test::SeededRandom(0, 0));
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
    return test::ErrorOf([&] { Handshake(config, nullptr, test::SeededRandom(0, 0)); });
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
