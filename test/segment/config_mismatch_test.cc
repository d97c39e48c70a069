// Mismatch reports of nodes with different settings.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

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

std::vector<std::string> Reported(Handshake* node) {
  std::vector<std::string> texts;
  ConfigMismatch mismatch;
  while (node->NextMismatch(&mismatch)) texts.push_back(mismatch.text);
  return texts;
}

// Reports of every node within `seconds`, polled every 100 ms.
std::vector<std::vector<std::string>> ReportedWhileRunning(HandshakeCluster* cluster, NodeId nodes,
                                                           int seconds) {
  std::vector<std::vector<std::string>> reported(nodes);
  for (int i = 0; i < 10 * seconds; ++i) {
    cluster->Run(100);
    for (NodeId node = 0; node < nodes; ++node) {
      for (std::string& text : Reported(&cluster->node(node)))
        reported[node].push_back(std::move(text));
    }
  }
  return reported;
}

using Change = std::function<void(HandshakeConfig*)>;

// Node b's configuration is altered by `change`. Node a reports `of_b`, b reports `of_a`, once
// each.
void ExpectMismatch(const Change& change, const std::string& of_b, const std::string& of_a) {
  for (const bool multicast : {false, true}) {
    SCOPED_TRACE(of_b);
    HandshakeCluster cluster(3);
    cluster.StartAll(nullptr, multicast);
    HandshakeConfig config = ConfigOf(1, 3);
    config.multicast = multicast;
    change(&config);
    cluster.Start(config);
    const auto reported = ReportedWhileRunning(&cluster, 3, 10);
    for (NodeId node : {0, 2}) {
      EXPECT_FALSE(cluster.node(node).IsEstablished(1));
      ASSERT_TRUE(cluster.node(node).MismatchOf(1).has_value());
      EXPECT_EQ(cluster.node(node).MismatchOf(1)->text, of_b);
      EXPECT_TRUE(cluster.node(node).MismatchOf(1)->authenticated);
      EXPECT_EQ(reported[node], std::vector{of_b});
    }
    EXPECT_FALSE(cluster.node(1).IsEstablished(0));
    ASSERT_TRUE(cluster.node(1).MismatchOf(0).has_value());
    EXPECT_EQ(cluster.node(1).MismatchOf(0)->text, of_a);
    EXPECT_GT(CountOf(cluster.node(1), DropReason::kDiffers), 0u);
    // The other two nodes are not affected.
    EXPECT_TRUE(cluster.node(0).IsConfirmed(2) && cluster.node(2).IsConfirmed(0));
    EXPECT_FALSE(cluster.node(0).IsEstablished(1));
  }
}

TEST(ConfigMismatch, NamesTheFirstMismatchOnBothSides) {
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
  ExpectMismatch([](auto* config) { config->settings.max_iter = 300; },
                 "node b has another max_iter: 300, here 800",
                 "node a has another max_iter: 800, here 300");
  ExpectMismatch([](auto* config) { config->settings.frame_version = 9; },
                 StrCat("node b has another version of frames: 9, here ", int{kFrameVersion}),
                 StrCat("node a has another version of frames: ", int{kFrameVersion}, ", here 9"));
}

TEST(ConfigMismatch, ANodeWithoutAScheduleFitsToAny) {
  HandshakeCluster cluster(3);
  cluster.StartAll();
  HandshakeConfig config = ConfigOf(1, 3);
  config.settings.max_iter = 0;
  cluster.Start(config);
  EXPECT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 10'000));
}

TEST(ConfigMismatch, NamesWhatAPeerCallsItself) {
  ExpectMismatch(
      [](auto* config) {
        config->names = {"x", "c\n", "z"};
      },
      "node 1 names itself c?, expected b", "node 0 names itself a, expected x");
}

TEST(ConfigMismatch, AnotherRunIsNotSpokenOf) {
  HandshakeCluster cluster(2);
  cluster.StartAll();
  HandshakeConfig config = ConfigOf(1, 2);
  config.run = 1;
  cluster.Start(config);
  cluster.Run(5'000);
  EXPECT_FALSE(cluster.node(0).IsEstablished(1));
  EXPECT_FALSE(cluster.node(0).MismatchOf(1).has_value());
  EXPECT_GT(CountOf(cluster.node(0), DropReason::kRun), 0u);
}

// `a` and `b` are the nodes' keys; null means no key.
void ExpectKeysRefused(const SecretKey* a, const SecretKey* b, const std::string& of_b,
                       const std::string& of_a) {
  HandshakeCluster cluster(2);
  cluster.Start(ConfigOf(0, 2), a);
  cluster.Start(ConfigOf(1, 2), b);
  const auto reported = ReportedWhileRunning(&cluster, 2, 10);
  EXPECT_FALSE(cluster.node(0).IsEstablished(1));
  EXPECT_FALSE(cluster.node(1).IsEstablished(0));
  EXPECT_EQ(reported[0], std::vector{of_b});
  EXPECT_EQ(reported[1], std::vector{of_a});
  EXPECT_FALSE(cluster.node(0).MismatchOf(1)->authenticated);
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
  HandshakeCluster cluster(2);
  cluster.StartAll(&key);
  HandshakeConfig config = ConfigOf(1, 2);
  config.run = 1;
  cluster.Start(config, &key);
  cluster.tamper = [](sim::SentHandshake* frame) {
    Put<uint64_t>(frame->bytes.data(), 8, sim::kRun);
    Put<uint32_t>(frame->bytes.data(), 188, Crc32c({frame->bytes.data(), 188}));
    return true;
  };
  cluster.Run(5'000);
  EXPECT_FALSE(cluster.node(0).IsEstablished(1));
  EXPECT_GT(CountOf(cluster.node(0), DropReason::kBadTag), 0u);
}

TEST(ConfigMismatch, ANodeThatStartsAgainWithAnotherKeyHearsWhyItIsRefused) {
  const SecretKey key = KeyOf(1), other = KeyOf(2);
  HandshakeCluster cluster(2);
  cluster.StartAll(&key);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 100));
  cluster.Run(5'000);  // no reply is pending any more
  const Nonce session_id = cluster.node(1).session_id();
  cluster.Start(ConfigOf(1, 2, 2), &other);
  cluster.Run(3'000);
  EXPECT_EQ(cluster.node(0).Peer(1)->session_id, session_id);
  EXPECT_EQ(Reported(&cluster.node(0)), std::vector<std::string>{"node b uses another key"});
  EXPECT_EQ(Reported(&cluster.node(1)), std::vector<std::string>{"node a uses another key"});
}

TEST(ConfigMismatch, EverySessionOfAPeerIsReportedAndRepairForgetsIt) {
  HandshakeCluster cluster(2);
  cluster.StartAll();
  std::vector<std::string> reported;
  for (uint32_t incarnation = 2; incarnation < 5; ++incarnation) {
    HandshakeConfig config = ConfigOf(1, 2, incarnation);
    config.settings.topology_digest = 1;
    cluster.Start(config);
    cluster.Run(10'000);
    for (const std::string& text : Reported(&cluster.node(0))) reported.push_back(text);
  }
  EXPECT_EQ(reported, std::vector<std::string>(3, "node b has another topology file"));
  cluster.Start(ConfigOf(1, 2, 5));
  EXPECT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 5'000));
  EXPECT_FALSE(cluster.node(0).MismatchOf(1).has_value());
}

// ---- Verdict of a node that receives mismatches. ----

constexpr int64_t kGiveUpNs = 10'000 * sim::kMs;

struct Incoming {
  Handshake* node;
  void Differs(NodeId from, int64_t now) const {  // receives a message of a node with another key
    HandshakeCluster other(3);
    const SecretKey key = KeyOf(9);
    other.Start(ConfigOf(from, 3), &key);
    other.Run(2);
    node->Receive(from, other.sent().front().bytes, now);
  }
};

TEST(ConfigMismatch, EndsANodeOnceItHasLastedWhileNobodyElseWasMet) {
  Handshake node(ConfigOf(0, 3), nullptr, sim::SeededRandom(0, 0));
  const Incoming incoming{&node};
  EXPECT_EQ(node.Verdict(0), JoinVerdict::kMayJoin);
  for (int64_t now = 5; now < 5 + kGiveUpNs; now += kGiveUpNs / 4) {
    incoming.Differs(1, now);
    EXPECT_EQ(node.Verdict(now), JoinVerdict::kWait) << now;
  }
  EXPECT_EQ(node.Verdict(5 + kGiveUpNs), JoinVerdict::kWait);  // no message was received since
  incoming.Differs(1, 4 + kGiveUpNs);
  EXPECT_EQ(node.Verdict(4 + kGiveUpNs), JoinVerdict::kWait);
  incoming.Differs(1, 5 + kGiveUpNs);
  EXPECT_EQ(node.Verdict(5 + kGiveUpNs), JoinVerdict::kGiveUp);
  EXPECT_EQ(node.verdict_reason(), "node b uses a key, here none is used");
}

TEST(ConfigMismatch, IsForgottenWhenItIsNotHeardOfAgain) {
  Handshake node(ConfigOf(0, 3), nullptr, sim::SeededRandom(0, 0));
  const Incoming incoming{&node};
  incoming.Differs(1, 0);
  EXPECT_EQ(node.wait_ends(), kGiveUpNs);
  EXPECT_EQ(node.Verdict(kGiveUpNs), JoinVerdict::kWait);
  EXPECT_EQ(node.Verdict(kGiveUpNs + 1), JoinVerdict::kMayJoin);
  incoming.Differs(1, kGiveUpNs + 1);  // the mismatches before have expired
  EXPECT_EQ(node.Verdict(kGiveUpNs + 1), JoinVerdict::kWait);
  incoming.Differs(1, 2 * kGiveUpNs);
  EXPECT_EQ(node.Verdict(2 * kGiveUpNs), JoinVerdict::kWait);
}

TEST(ConfigMismatch, DoesNotHoldUpANodeThatHasMetAnother) {
  HandshakeCluster cluster(3);
  cluster.Start(ConfigOf(0, 3));
  const Incoming incoming{&cluster.node(0)};
  for (int i = 0; i < 9; ++i) {
    incoming.Differs(1, cluster.now());
    cluster.Run(1'000);
  }
  EXPECT_EQ(cluster.node(0).Verdict(cluster.now()), JoinVerdict::kWait);
  cluster.Start(ConfigOf(2, 3));
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.node(0).IsEstablished(2); }, 3'000));
  for (int i = 0; i < 9; ++i) {
    incoming.Differs(1, cluster.now());
    EXPECT_EQ(cluster.node(0).Verdict(cluster.now()), JoinVerdict::kMayJoin);
    cluster.Run(1'000);
  }
}

// An authenticated mismatch is the reason, whatever else is received.
TEST(ConfigMismatch, GivesTheAuthenticatedReasonBeforeOthers) {
  HandshakeCluster cluster(3);
  cluster.Start(ConfigOf(0, 3));
  HandshakeConfig config = ConfigOf(1, 3);
  config.settings.topology_digest = 1;
  cluster.Start(config);
  for (int i = 0; i < 12; ++i) {
    Incoming{&cluster.node(0)}.Differs(2, cluster.now());
    cluster.Run(1'000);
  }
  Incoming{&cluster.node(0)}.Differs(2, cluster.now());  // the last message received
  for (const NodeId node : {0, 1}) {
    EXPECT_EQ(cluster.node(node).Verdict(cluster.now()), JoinVerdict::kGiveUp);
  }
  EXPECT_EQ(cluster.node(0).verdict_reason(), "node b has another topology file");
  EXPECT_EQ(cluster.node(1).verdict_reason(), "node a has another topology file");
}

TEST(ConfigMismatch, OfAPeerThatIsStartedOverAndOverIsToldOfLessAndLessOften) {
  HandshakeCluster cluster(2);
  cluster.StartAll();
  size_t reported = 0;
  for (uint32_t incarnation = 2; incarnation < 1'000; ++incarnation) {
    HandshakeConfig config = ConfigOf(1, 2, incarnation);
    config.settings.topology_digest = 1;
    cluster.Start(config);
    cluster.Run(1'100);
    reported += Reported(&cluster.node(0)).size();
  }
  EXPECT_GE(reported, 10u);
  EXPECT_LE(reported, 13u);  // after 1, 2, 4, ... 512 s, then every 512 s
}

TEST(ConfigMismatch, AnotherVersionIsNamedWhereverItsFieldsLie) {
  HandshakeCluster cluster(2);
  cluster.StartAll();
  cluster.tamper = [](sim::SentHandshake* frame) {
    if (frame->from == 0) return true;
    Put<uint8_t>(frame->bytes.data(), 4, kHandshakeVersion + 1);
    Put<uint64_t>(frame->bytes.data(), 48, ~0ull);
    Put<uint32_t>(frame->bytes.data(), 188, Crc32c({frame->bytes.data(), 188}));
    return true;
  };
  cluster.Run(5'000);
  EXPECT_FALSE(cluster.node(0).IsEstablished(1));
  EXPECT_EQ(Reported(&cluster.node(0)),
            std::vector<std::string>{"node b runs another version of millrace"});
}

// A node without the key can cause a line or two in the log, but cannot flood it.
TEST(ConfigMismatch, ForgeriesAreToldOfOnce) {
  const SecretKey key = KeyOf(1), other = KeyOf(2);
  HandshakeCluster cluster(2);
  cluster.StartAll(&key);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllEstablished(); }, 100));
  size_t reported = 0;
  for (uint32_t i = 0; i < 50; ++i) {
    HandshakeCluster forger(2);
    forger.Start(ConfigOf(1, 2, i + 2), i % 2 == 0 ? &other : nullptr);
    forger.Run(2);
    for (const sim::SentHandshake& frame : forger.sent()) {
      cluster.node(0).Receive(1, frame.bytes, cluster.now());
    }
    cluster.Run(1'100);
    reported += Reported(&cluster.node(0)).size();
  }
  EXPECT_EQ(reported, 2u);
  EXPECT_GT(CountOf(cluster.node(0), DropReason::kBadTag), 20u);
  EXPECT_GT(CountOf(cluster.node(0), DropReason::kNoKey), 20u);
  EXPECT_TRUE(cluster.AllEstablished());
}

}  // namespace
}  // namespace millrace
