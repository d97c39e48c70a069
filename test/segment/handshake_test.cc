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
using test::KeyOf;
using test::kMs;
using test::Meeting;

HandshakeMessage Decoded(const Carried& frame) {
  HandshakeMessage in;
  EXPECT_EQ(DecodeHandshake(frame.bytes, &in), DropReason::kNone);
  return in;
}

std::optional<Carried> LastFrom(const Meeting& meeting, NodeId from, NodeId to) {
  std::optional<Carried> last;
  for (const Carried& frame : meeting.sent()) {
    if (frame.from == from && frame.to == to) last = frame;
  }
  return last;
}

void ExpectToMeetAndFallSilent(Meeting* meeting, size_t most_frames) {
  ASSERT_TRUE(meeting->RunUntil([&] { return meeting->AllMet(); }, 60'000));
  meeting->Run(3'000);  // pending replies
  const size_t sent = meeting->sent().size();
  EXPECT_LE(sent, most_frames);
  meeting->Run(30'000);
  EXPECT_EQ(meeting->sent().size(), sent);
}

TEST(Handshake, TwoNodesMeetAtOnceAndFallSilent) {
  Meeting meeting(2);
  meeting.StartAll();
  EXPECT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 10));
  ExpectToMeetAndFallSilent(&meeting, 8);
}

TEST(Handshake, ThreeNodesWithAKeyMeetByMulticast) {
  const SecretKey key = KeyOf(1);
  Meeting meeting(3);
  meeting.StartAll(&key, true);
  EXPECT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 20));
  ExpectToMeetAndFallSilent(&meeting, 40);
  EXPECT_EQ(meeting.sent().front().to, kAllNodes);
}

TEST(Handshake, NodesMeetOverLinksThatLoseDuplicateAndReorder) {
  const SecretKey key = KeyOf(1);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const size_t nodes = 2 + seed % 3;
    Meeting meeting(nodes, {0.5, 0.3, kMs, 40 * kMs}, seed);
    meeting.StartAll(seed % 2 == 0 ? &key : nullptr, seed % 4 < 2);
    ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 120'000));
    for (size_t i = 0; i < nodes; ++i) {
      ConfigMismatch mismatch;
      EXPECT_FALSE(meeting.node(static_cast<NodeId>(i)).NextMismatch(&mismatch));
      EXPECT_EQ(meeting.node(static_cast<NodeId>(i)).stats().sessions, nodes - 1);
    }
  }
}

TEST(Handshake, APeerIsToldOfOnceALife) {
  Meeting meeting(3);
  meeting.StartAll();
  ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 100));
  EXPECT_TRUE(meeting.node(0).IsEstablished(1) && meeting.node(0).IsEstablished(2));
  std::map<NodeId, Nonce> told;
  PeerSession peer;
  while (meeting.node(0).NextSession(&peer)) {
    EXPECT_TRUE(told.emplace(peer.node, peer.session_id).second);
  }
  EXPECT_EQ(told, (std::map<NodeId, Nonce>{{1, meeting.node(1).session_id()},
                                           {2, meeting.node(2).session_id()}}));
  meeting.Run(5'000);
  EXPECT_FALSE(meeting.node(0).NextSession(&peer));
}

TEST(Handshake, ANodeThatStartsAgainReplacesItsOldLifeOnlyWhenItHasProvenTheNewOne) {
  const SecretKey key = KeyOf(1);
  Meeting meeting(2);
  meeting.StartAll(&key);
  ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 100));
  const Nonce old = meeting.node(1).session_id();
  // The new incarnation sends but receives nothing, so it cannot echo a challenge.
  meeting.set_tamper([](Carried* frame) { return frame->from == 1; });
  meeting.Start(ConfigOf(1, 2, 2), &key);
  ASSERT_NE(meeting.node(1).session_id(), old);
  meeting.Run(3'000);
  EXPECT_EQ(meeting.node(0).Peer(1)->session_id, old);
  EXPECT_GT(CountOf(meeting.node(0), DropReason::kUnauthenticated), 0u);
  meeting.set_tamper(nullptr);
  EXPECT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 5'000));
  EXPECT_EQ(meeting.node(0).Peer(1)->incarnation, 2u);
  EXPECT_EQ(meeting.node(0).stats().sessions, 2u);
}

TEST(Handshake, ManyStartsOfOneNodeAreAllMetOverABadLink) {
  Meeting meeting(3, {0.3, 0.3, kMs, 30 * kMs});
  meeting.StartAll();
  for (uint32_t incarnation = 2; incarnation < 12; ++incarnation) {
    meeting.Start(ConfigOf(1, 3, incarnation));
    ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 120'000)) << incarnation;
  }
}

TEST(Handshake, ARecordedLifeIsNotBelieved) {
  for (const bool keyed : {false, true}) {
    const SecretKey key = KeyOf(1);
    const SecretKey* const used = keyed ? &key : nullptr;
    Meeting meeting(2);
    meeting.StartAll(used);
    ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 100));
    const std::vector<Carried> recorded = meeting.sent();
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

TEST(Handshake, AnEarlierLifesRecordingDoesNotReplaceTheLifeThatIsKnown) {
  Meeting meeting(2);
  meeting.StartAll();
  ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 100));
  const std::vector<Carried> recorded = meeting.sent();
  meeting.Start(ConfigOf(1, 2, 2));
  ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 5'000));
  const Nonce session_id = meeting.node(1).session_id();
  for (const Carried& frame : recorded) {
    if (frame.from == 1) meeting.node(0).Receive(1, frame.bytes, meeting.now());
  }
  meeting.Run(5'000);
  EXPECT_EQ(meeting.node(0).Peer(1)->session_id, session_id);
  EXPECT_TRUE(meeting.AllMet());
}

// `repaired`: the checksum is recomputed, as a forger can do.
void ExpectFlippedBitsRefused(const SecretKey* key, bool repaired) {
  Meeting meeting(2);
  meeting.StartAll(key);
  ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 100));
  const Carried good = *LastFrom(meeting, 1, 0);
  ASSERT_EQ(meeting.node(0).Receive(1, good.bytes, meeting.now()), DropReason::kNone);
  for (size_t bit = 0; bit < 8 * kHandshakeBytes; ++bit) {
    HandshakeBytes bytes = good.bytes;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    if (repaired && bit / 8 < 188) Put<uint32_t>(bytes.data(), 188, Crc32c({bytes.data(), 188}));
    EXPECT_NE(meeting.node(0).Receive(1, bytes, meeting.now()), DropReason::kNone) << bit;
  }
  EXPECT_GE(CountOf(meeting.node(0), repaired ? DropReason::kBadTag : DropReason::kChecksum), 128u);
  EXPECT_TRUE(meeting.AllMet());
}

TEST(Handshake, AnyFlippedBitIsRefused) {
  const SecretKey key = KeyOf(1);
  ExpectFlippedBitsRefused(nullptr, false);
  ExpectFlippedBitsRefused(&key, false);
  ExpectFlippedBitsRefused(&key, true);
}

TEST(Handshake, AChallengeThatWasEchoedIsNotAskedAgain) {
  Meeting meeting(2);
  meeting.StartAll();
  ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 100));
  Nonce echoed = kNoNonce;
  for (const Carried& frame : meeting.sent()) {
    if (frame.from == 1) echoed = Decoded(frame).echo;
  }
  ASSERT_NE(echoed, kNoNonce);
  meeting.Start(ConfigOf(1, 2, 2));
  meeting.Run(3);
  const HandshakeMessage next = Decoded(*LastFrom(meeting, 0, 1));
  EXPECT_NE(next.challenge, kNoNonce);
  EXPECT_NE(next.challenge, echoed);
}

// A man in the middle presents the frames of each node as those of the other.
TEST(Handshake, SwappedIdsAreNotBelieved) {
  const SecretKey key = KeyOf(1);
  for (const SecretKey* used : {static_cast<const SecretKey*>(nullptr), &key}) {
    Meeting meeting(3);
    meeting.set_tamper([](Carried* frame) {
      const auto swapped = [](NodeId node) -> NodeId { return node == 0 ? 0 : 3 - node; };
      if (frame->to == kAllNodes) return false;
      frame->from = swapped(frame->from);
      frame->to = swapped(frame->to);
      Put<uint16_t>(frame->bytes.data(), 16, frame->from);
      Put<uint16_t>(frame->bytes.data(), 18, frame->to);
      Put<uint32_t>(frame->bytes.data(), 188, Crc32c({frame->bytes.data(), 188}));
      return true;
    });
    meeting.StartAll(used);
    meeting.Run(20'000);
    EXPECT_FALSE(meeting.node(0).IsEstablished(1));
    EXPECT_FALSE(meeting.node(0).IsEstablished(2));
    ASSERT_TRUE(meeting.node(0).MismatchOf(1).has_value());
    EXPECT_EQ(meeting.node(0).MismatchOf(1)->text,
              used != nullptr ? "node b uses another key" : "node 1 names itself c, expected b");
  }
}

TEST(Handshake, ASenderIsWhoTheTransportSaysItIs) {
  Meeting meeting(3);
  meeting.StartAll();
  meeting.Run(10);
  const Carried frame = *LastFrom(meeting, 1, 0);
  EXPECT_EQ(meeting.node(0).Receive(2, frame.bytes, meeting.now()), DropReason::kSourceMismatch);
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
  Meeting meeting(2);
  meeting.StartAll(&key);
  ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 100));
  meeting.Run(10'000);
  const Carried question = meeting.sent().front();
  ASSERT_TRUE(Decoded(question).wants_answer);
  Handshake& asked = meeting.node(question.to);
  const uint64_t before = asked.stats().sent;
  for (int64_t i = 0; i < 100'000; ++i) {  // ten per millisecond
    const int64_t now = meeting.now() + i * kMs / 10;
    asked.Receive(question.from, question.bytes, now);
    OutHandshake room[4];
    asked.Send(room, now);
  }
  EXPECT_LE(asked.stats().sent - before, 14u);
  EXPECT_GE(asked.stats().sent - before, 10u);
  EXPECT_GT(asked.stats().rate_limited, 99'000u);
}

TEST(Handshake, WhoLooksForOthersIsNotAnsweredByThoseItKnows) {
  Meeting meeting(4);
  meeting.StartAll(nullptr, true);
  meeting.Stop(2);
  meeting.Stop(3);
  ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 5'000));
  meeting.Run(5'000);
  const size_t before = meeting.sent().size();
  meeting.Run(10'000);
  ASSERT_GT(meeting.sent().size(), before + 10);
  for (size_t i = before; i < meeting.sent().size(); ++i) {
    EXPECT_EQ(meeting.sent()[i].to, kAllNodes);
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
