// Mismatch reports of nodes with different settings.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "base/crc32c.h"
#include "base/wire_bytes.h"
#include "test/segment/handshake_harness.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::ConfigOf;
using test::CountOf;
using test::KeyOf;
using test::Meeting;

std::vector<std::string> Told(Handshake* node) {
  std::vector<std::string> texts;
  ConfigMismatch mismatch;
  while (node->NextMismatch(&mismatch)) texts.push_back(mismatch.text);
  return texts;
}

// Reports of every node within `seconds`, polled every 100 ms.
std::vector<std::vector<std::string>> ToldWhileRunning(Meeting* meeting, NodeId nodes,
                                                       int seconds) {
  std::vector<std::vector<std::string>> told(nodes);
  for (int i = 0; i < 10 * seconds; ++i) {
    meeting->Run(100);
    for (NodeId node = 0; node < nodes; ++node) {
      for (std::string& text : Told(&meeting->node(node))) told[node].push_back(std::move(text));
    }
  }
  return told;
}

using Change = std::function<void(HandshakeConfig*)>;

// Node b's configuration is altered by `change`. Node a reports `of_b`, b reports `of_a`, once
// each.
void ExpectMismatch(const Change& change, const std::string& of_b, const std::string& of_a) {
  for (const bool multicast : {false, true}) {
    SCOPED_TRACE(of_b);
    Meeting meeting(3);
    meeting.StartAll(nullptr, multicast);
    HandshakeConfig config = ConfigOf(1, 3);
    config.multicast = multicast;
    change(&config);
    meeting.Start(config);
    const auto told = ToldWhileRunning(&meeting, 3, 10);
    for (NodeId node : {0, 2}) {
      EXPECT_FALSE(meeting.node(node).IsEstablished(1));
      ASSERT_TRUE(meeting.node(node).MismatchOf(1).has_value());
      EXPECT_EQ(meeting.node(node).MismatchOf(1)->text, of_b);
      EXPECT_TRUE(meeting.node(node).MismatchOf(1)->proven);
      EXPECT_EQ(told[node], std::vector{of_b});
    }
    EXPECT_FALSE(meeting.node(1).IsEstablished(0));
    ASSERT_TRUE(meeting.node(1).MismatchOf(0).has_value());
    EXPECT_EQ(meeting.node(1).MismatchOf(0)->text, of_a);
    EXPECT_GT(CountOf(meeting.node(1), DropReason::kDiffers), 0u);
    // The other two nodes are not affected.
    EXPECT_TRUE(meeting.node(0).IsConfirmed(2) && meeting.node(2).IsConfirmed(0));
    EXPECT_FALSE(meeting.node(0).IsEstablished(1));
  }
}

TEST(ConfigMismatch, NamesTheFirstDifferenceOnBothSides) {
  ExpectMismatch([](auto* config) { config->settings.parameters = 431'080; },
                 "node b has another net: 431080 parameters, here 430500",
                 "node a has another net: 430500 parameters, here 431080");
  ExpectMismatch(
      [](auto* config) { config->settings.layout_digest = 1; },
      "node b has another net: as many parameters, under other names or in other shapes",
      "node a has another net: as many parameters, under other names or in other shapes");
  ExpectMismatch([](auto* config) { config->settings.chunk_floats = 357; },
                 "node b has another chunk size: 357 floats, here 348",
                 "node a has another chunk size: 348 floats, here 357");
  ExpectMismatch([](auto* config) { config->settings.max_nodes = 8; },
                 "node b has another max_nodes: 8, here 3",
                 "node a has another max_nodes: 3, here 8");
  ExpectMismatch([](auto* config) { config->settings.topology_digest = 1; },
                 "node b has another topology file", "node a has another topology file");
  ExpectMismatch([](auto* config) { config->settings.frame_version = 9; },
                 "node b has another version of frames: 9, here 2",
                 "node a has another version of frames: 2, here 9");
}

TEST(ConfigMismatch, NamesWhatAPeerCallsItself) {
  ExpectMismatch(
      [](auto* config) {
        config->names = {"x", "c\n", "z"};
      },
      "node 1 names itself c?, expected b", "node 0 names itself a, expected x");
}

TEST(ConfigMismatch, AnotherRunIsNotSpokenOf) {
  Meeting meeting(2);
  meeting.StartAll();
  HandshakeConfig config = ConfigOf(1, 2);
  config.run = 1;
  meeting.Start(config);
  meeting.Run(5'000);
  EXPECT_FALSE(meeting.node(0).IsEstablished(1));
  EXPECT_FALSE(meeting.node(0).MismatchOf(1).has_value());
  EXPECT_GT(CountOf(meeting.node(0), DropReason::kRun), 0u);
}

// `a` and `b` are the nodes' keys; null means no key.
void ExpectKeysRefused(const SecretKey* a, const SecretKey* b, const std::string& of_b,
                       const std::string& of_a) {
  Meeting meeting(2);
  meeting.Start(ConfigOf(0, 2), a);
  meeting.Start(ConfigOf(1, 2), b);
  const auto told = ToldWhileRunning(&meeting, 2, 10);
  EXPECT_FALSE(meeting.node(0).IsEstablished(1));
  EXPECT_FALSE(meeting.node(1).IsEstablished(0));
  EXPECT_EQ(told[0], std::vector{of_b});
  EXPECT_EQ(told[1], std::vector{of_a});
  EXPECT_FALSE(meeting.node(0).MismatchOf(1)->proven);
}

TEST(ConfigMismatch, NodesWithoutTheSameKeyRefuseEachOther) {
  const SecretKey key = KeyOf(1), other = KeyOf(2);
  ExpectKeysRefused(&key, &other, "node b uses another key", "node a uses another key");
  ExpectKeysRefused(&key, nullptr, "node b uses no key, here one is used",
                    "node a uses a key, here none is used");
  ExpectKeysRefused(nullptr, &key, "node b uses a key, here none is used",
                    "node a uses no key, here one is used");
}

TEST(ConfigMismatch, AKeyIsOfOneRun) {
  const SecretKey key = KeyOf(1);
  Meeting meeting(2);
  meeting.StartAll(&key);
  HandshakeConfig config = ConfigOf(1, 2);
  config.run = 1;
  meeting.Start(config, &key);
  meeting.set_tamper([](test::Carried* frame) {
    Put<uint64_t>(frame->bytes.data(), 8, test::kRun);
    Put<uint32_t>(frame->bytes.data(), 188, Crc32c({frame->bytes.data(), 188}));
    return true;
  });
  meeting.Run(5'000);
  EXPECT_FALSE(meeting.node(0).IsEstablished(1));
  EXPECT_GT(CountOf(meeting.node(0), DropReason::kBadTag), 0u);
}

TEST(ConfigMismatch, ANodeThatStartsAgainWithAnotherKeyHearsWhyItIsRefused) {
  const SecretKey key = KeyOf(1), other = KeyOf(2);
  Meeting meeting(2);
  meeting.StartAll(&key);
  ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 100));
  meeting.Run(5'000);  // no reply is pending any more
  const Nonce session_id = meeting.node(1).session_id();
  meeting.Start(ConfigOf(1, 2, 2), &other);
  meeting.Run(3'000);
  EXPECT_EQ(meeting.node(0).Peer(1)->session_id, session_id);
  EXPECT_EQ(Told(&meeting.node(0)), std::vector<std::string>{"node b uses another key"});
  EXPECT_EQ(Told(&meeting.node(1)), std::vector<std::string>{"node a uses another key"});
}

TEST(ConfigMismatch, EveryLifeOfAPeerIsToldOfAndRepairForgetsIt) {
  Meeting meeting(2);
  meeting.StartAll();
  std::vector<std::string> told;
  for (uint32_t incarnation = 2; incarnation < 5; ++incarnation) {
    HandshakeConfig config = ConfigOf(1, 2, incarnation);
    config.settings.topology_digest = 1;
    meeting.Start(config);
    meeting.Run(10'000);
    for (const std::string& text : Told(&meeting.node(0))) told.push_back(text);
  }
  EXPECT_EQ(told, std::vector<std::string>(3, "node b has another topology file"));
  meeting.Start(ConfigOf(1, 2, 5));
  EXPECT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 5'000));
  EXPECT_FALSE(meeting.node(0).MismatchOf(1).has_value());
}

// ---- Verdict of a node that receives mismatches. ----

constexpr int64_t kPatience = 10'000 * test::kMs;

struct Heard {
  Handshake* node;
  void Differs(NodeId from, int64_t now) const {  // receives a message of a node with another key
    Meeting other(3);
    const SecretKey key = KeyOf(9);
    other.Start(ConfigOf(from, 3), &key);
    other.Run(2);
    node->Receive(from, other.sent().front().bytes, now);
  }
};

TEST(ConfigMismatch, EndsANodeOnceItHasLastedWhileNobodyElseWasMet) {
  Handshake node(ConfigOf(0, 3), nullptr, test::SeededRandom(0, 0));
  const Heard heard{&node};
  EXPECT_EQ(node.Verdict(0), JoinVerdict::kMayJoin);
  for (int64_t now = 5; now < 5 + kPatience; now += kPatience / 4) {
    heard.Differs(1, now);
    EXPECT_EQ(node.Verdict(now), JoinVerdict::kWait) << now;
  }
  EXPECT_EQ(node.Verdict(5 + kPatience), JoinVerdict::kWait);  // no message was received since
  heard.Differs(1, 4 + kPatience);
  EXPECT_EQ(node.Verdict(4 + kPatience), JoinVerdict::kWait);
  heard.Differs(1, 5 + kPatience);
  EXPECT_EQ(node.Verdict(5 + kPatience), JoinVerdict::kGiveUp);
  EXPECT_EQ(node.verdict_reason(), "node b uses a key, here none is used");
}

TEST(ConfigMismatch, IsForgottenWhenItIsNotHeardOfAgain) {
  Handshake node(ConfigOf(0, 3), nullptr, test::SeededRandom(0, 0));
  const Heard heard{&node};
  heard.Differs(1, 0);
  EXPECT_EQ(node.wait_ends(), kPatience);
  EXPECT_EQ(node.Verdict(kPatience), JoinVerdict::kWait);
  EXPECT_EQ(node.Verdict(kPatience + 1), JoinVerdict::kMayJoin);
  heard.Differs(1, kPatience + 1);  // the mismatches before have expired
  EXPECT_EQ(node.Verdict(kPatience + 1), JoinVerdict::kWait);
  heard.Differs(1, 2 * kPatience);
  EXPECT_EQ(node.Verdict(2 * kPatience), JoinVerdict::kWait);
}

TEST(ConfigMismatch, DoesNotHoldUpANodeThatHasMetAnother) {
  Meeting meeting(3);
  meeting.Start(ConfigOf(0, 3));
  const Heard heard{&meeting.node(0)};
  for (int i = 0; i < 9; ++i) {
    heard.Differs(1, meeting.now());
    meeting.Run(1'000);
  }
  EXPECT_EQ(meeting.node(0).Verdict(meeting.now()), JoinVerdict::kWait);
  meeting.Start(ConfigOf(2, 3));
  ASSERT_TRUE(meeting.RunUntil([&] { return meeting.node(0).IsEstablished(2); }, 3'000));
  for (int i = 0; i < 9; ++i) {
    heard.Differs(1, meeting.now());
    EXPECT_EQ(meeting.node(0).Verdict(meeting.now()), JoinVerdict::kMayJoin);
    meeting.Run(1'000);
  }
}

// A proven mismatch is the reason, whatever else is received.
TEST(ConfigMismatch, GivesTheProvenReasonBeforeOthers) {
  Meeting meeting(3);
  meeting.Start(ConfigOf(0, 3));
  HandshakeConfig config = ConfigOf(1, 3);
  config.settings.topology_digest = 1;
  meeting.Start(config);
  for (int i = 0; i < 12; ++i) {
    Heard{&meeting.node(0)}.Differs(2, meeting.now());
    meeting.Run(1'000);
  }
  Heard{&meeting.node(0)}.Differs(2, meeting.now());  // the last message received
  for (const NodeId node : {0, 1}) {
    EXPECT_EQ(meeting.node(node).Verdict(meeting.now()), JoinVerdict::kGiveUp);
  }
  EXPECT_EQ(meeting.node(0).verdict_reason(), "node b has another topology file");
  EXPECT_EQ(meeting.node(1).verdict_reason(), "node a has another topology file");
}

TEST(ConfigMismatch, OfAPeerThatIsStartedOverAndOverIsToldOfLessAndLessOften) {
  Meeting meeting(2);
  meeting.StartAll();
  size_t told = 0;
  for (uint32_t incarnation = 2; incarnation < 1'000; ++incarnation) {
    HandshakeConfig config = ConfigOf(1, 2, incarnation);
    config.settings.topology_digest = 1;
    meeting.Start(config);
    meeting.Run(1'100);
    told += Told(&meeting.node(0)).size();
  }
  EXPECT_GE(told, 10u);
  EXPECT_LE(told, 13u);  // after 1, 2, 4, ... 512 s, then every 512 s
}

TEST(ConfigMismatch, AnotherVersionIsNamedWhereverItsFieldsLie) {
  Meeting meeting(2);
  meeting.StartAll();
  meeting.set_tamper([](test::Carried* frame) {
    if (frame->from == 0) return true;
    Put<uint8_t>(frame->bytes.data(), 4, kHandshakeVersion + 1);
    Put<uint64_t>(frame->bytes.data(), 48, ~0ull);
    Put<uint32_t>(frame->bytes.data(), 188, Crc32c({frame->bytes.data(), 188}));
    return true;
  });
  meeting.Run(5'000);
  EXPECT_FALSE(meeting.node(0).IsEstablished(1));
  EXPECT_EQ(Told(&meeting.node(0)),
            std::vector<std::string>{"node b runs another version of millrace"});
}

// A node without the key can cause a line or two in the log, but cannot flood it.
TEST(ConfigMismatch, ForgeriesAreToldOfOnce) {
  const SecretKey key = KeyOf(1), other = KeyOf(2);
  Meeting meeting(2);
  meeting.StartAll(&key);
  ASSERT_TRUE(meeting.RunUntil([&] { return meeting.AllMet(); }, 100));
  size_t told = 0;
  for (uint32_t i = 0; i < 50; ++i) {
    Meeting forger(2);
    forger.Start(ConfigOf(1, 2, i + 2), i % 2 == 0 ? &other : nullptr);
    forger.Run(2);
    for (const test::Carried& frame : forger.sent()) {
      meeting.node(0).Receive(1, frame.bytes, meeting.now());
    }
    meeting.Run(1'100);
    told += Told(&meeting.node(0)).size();
  }
  EXPECT_EQ(told, 2u);
  EXPECT_GT(CountOf(meeting.node(0), DropReason::kBadTag), 20u);
  EXPECT_GT(CountOf(meeting.node(0), DropReason::kNoKey), 20u);
  EXPECT_TRUE(meeting.AllMet());
}

}  // namespace
}  // namespace millrace
