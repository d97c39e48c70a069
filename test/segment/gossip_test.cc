#include "segment/gossip/gossip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "test/sim/gossip_cluster.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using sim::GossipCluster;
using sim::kMs;

const sim::Shape kPair{2, {{0, 1}}};

TEST(Gossip, AreDeliveredOnceAndThenNoFramesFollow) {
  GossipCluster cluster({3, {{0, 1, 2}}});
  cluster.StartAll();
  cluster.Publish(0, "hello");
  cluster.Run(2);
  EXPECT_TRUE(cluster.AllRead(0, "hello"));
  EXPECT_FALSE(
      cluster.link(0).Has(1, cluster.store(0).changes()));  // its acknowledgement is in flight
  ASSERT_TRUE(cluster.Settles(50));
  EXPECT_TRUE(cluster.link(0).Has(1, cluster.store(0).changes()));
  EXPECT_EQ(cluster.sent(), 4u);  // to each of two peers, and their acknowledgements
  EXPECT_EQ(cluster.Read(1, 0, GossipKey::kTest), "-");
  cluster.Publish(0, "newer");
  EXPECT_FALSE(cluster.link(0).Has(1, cluster.store(0).changes()));
  cluster.Publish(0, "");
  ASSERT_TRUE(cluster.Settles(50));
  EXPECT_TRUE(cluster.AllRead(0, ""));
  EXPECT_EQ(cluster.sent(), 8u);  // a message that is replaced at once is never sent
}

TEST(Gossip, ComeInPartsWhereFramesAreShort) {
  for (size_t frame_bytes : {72u, 100u, 300u, 1088u, 9000u}) {
    GossipCluster cluster(kPair, {.loss = 0.2, .duplicate = 0.2, .delay_max = 6}, frame_bytes,
                          test::Seed() + frame_bytes);
    cluster.StartAll();
    for (size_t bytes : {size_t{1}, size_t{8}, size_t{500}, kMaxGossipBytes}) {
      std::string text;
      for (size_t i = 0; i < bytes; ++i) text += static_cast<char>('a' + i * 7 % 26);
      cluster.Publish(1, text);
      // A fragment that is lost in every round is retransmitted in turn with others, one per
      // second.
      ASSERT_TRUE(cluster.Settles(1'000'000)) << frame_bytes << ' ' << bytes;
      EXPECT_EQ(cluster.Read(0, 1), text);
    }
  }
  GossipStore store(2, 0, 1);
  GossipConfig config;
  config.max_frame_bytes = 71;
  EXPECT_EQ(test::ErrorOf([&] { Gossip(config, &store); }),
            "frames of 71 bytes: expected at least 72 for gossip messages");
}

// A chain with a fork at its end: the last message of each node reaches all nodes, whatever is
// lost.
TEST(Gossip, TravelDownTreesOverLinksThatLoseAndReorder) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    GossipCluster cluster({5, {{0, 1}, {1, 2}, {2, 3, 4}}},
                          {.loss = 0.3, .duplicate = 0.2, .delay_max = 31}, 200,
                          test::Seed() + seed);
    cluster.StartAll();
    Rng rng(test::Seed(), {80, seed});
    std::vector<std::string> newest(5, "-");
    for (int i = 0; i < 60; ++i) {
      const auto node = static_cast<NodeId>(rng.Below(5));
      newest[node] = std::string(rng.Below(400), 'a') + std::to_string(i);
      cluster.Publish(node, newest[node]);
      cluster.Run(static_cast<int64_t>(rng.Below(40)));
    }
    ASSERT_TRUE(cluster.Settles(120'000)) << seed;
    for (NodeId node = 0; node < 5; ++node) EXPECT_TRUE(cluster.AllRead(node, newest[node]));
  }
}

TEST(Gossip, OfANodeThatStartsAnewReplaceAllThatItSaidBefore) {
  GossipCluster cluster({3, {{0, 1}, {1, 2}}}, {.delay_max = 21}, 300, test::Seed());
  cluster.StartAll();
  for (int i = 0; i < 5; ++i) cluster.Publish(0, "old");
  cluster.Publish(0, "old test", GossipKey::kTest);
  cluster.Publish(2, "from 2");
  ASSERT_TRUE(cluster.Settles(5'000));
  EXPECT_EQ(cluster.Read(2, 0, GossipKey::kTest), "old test");
  cluster.Start(0);  // receives the others' messages again and publishes nothing yet
  ASSERT_TRUE(cluster.Settles(5'000));
  EXPECT_EQ(cluster.Read(0, 2), "from 2");
  EXPECT_EQ(cluster.Read(2, 0), "old");
  cluster.Publish(0, "new");
  ASSERT_TRUE(cluster.Settles(5'000));
  EXPECT_TRUE(cluster.AllRead(0, "new"));
  for (NodeId node = 0; node < 3; ++node) EXPECT_EQ(cluster.Read(node, 0, GossipKey::kTest), "-");
  EXPECT_EQ(cluster.store(2).Read(GossipKey::kReport)[0].incarnation, 2u);
  EXPECT_EQ(cluster.store(2).Read(GossipKey::kReport)[0].version, 1u);
  // The middle node loses its state and receives all messages from both sides.
  cluster.Start(1);
  ASSERT_TRUE(cluster.Settles(5'000));
  EXPECT_EQ(cluster.Read(1, 0), "new");
  EXPECT_EQ(cluster.Read(1, 2), "from 2");
}

TEST(Gossip, ToAPeerThatIsGoneBecomeOneFrameASecond) {
  GossipCluster cluster(kPair, {}, 100);
  cluster.StartAll();
  ASSERT_TRUE(cluster.Settles(10));
  cluster.Stop(1);
  cluster.Publish(0, std::string(1000, 'x'));
  cluster.Run(10'000);
  const size_t before = cluster.sent();
  cluster.Run(20'000);
  EXPECT_LE(cluster.sent() - before, 20u);
  EXPECT_GE(cluster.sent() - before, 12u);
  cluster.Publish(0, std::string(1000, 'y'));
  cluster.Run(10);
  EXPECT_LE(cluster.sent() - before, 21u);
  cluster.Start(1);
  ASSERT_TRUE(cluster.Settles(1'000));
  EXPECT_EQ(cluster.Read(1, 0), std::string(1000, 'y'));
}

TEST(Gossip, ThatNeverLeftAreDueAtOnce) {
  GossipStore store(2, 0, 1);
  GossipConfig config;
  config.peers = {1};
  config.max_frame_bytes = 300;
  Gossip gossip(config, &store);
  gossip.Admit(1, 1);
  store.Publish(GossipKey::kReport, {});
  std::vector<OutGossip> room(2);
  EXPECT_EQ(gossip.Send(room, 0), 1u);
  EXPECT_EQ(gossip.Send(room, kMs), 0u) << "a acknowledgement may be under way";
  gossip.NotSent(1, 2 * kMs);
  EXPECT_LE(gossip.NextEvent(), 2 * kMs);
  EXPECT_EQ(gossip.Send(room, 2 * kMs), 1u);
  EXPECT_EQ(gossip.Send(room, 3 * kMs), 0u);
}

// Two segments may deliver versions at the same time, the older one last.
TEST(Gossip, AreReplacedByNewerOnesOnly) {
  GossipStore store(2, 0, 1);
  const size_t entry = GossipStore::EntryOf(1, GossipKey::kReport);
  const auto take = [&](uint32_t incarnation, uint64_t version) {
    return store.Take(entry, {incarnation, version}, {}, 0);
  };
  EXPECT_TRUE(take(1, 2));
  EXPECT_FALSE(take(1, 2));
  EXPECT_FALSE(take(1, 1));
  EXPECT_TRUE(take(2, 1));
  EXPECT_FALSE(take(1, 3));
  ASSERT_EQ(store.Read(GossipKey::kReport).size(), 1u);
  EXPECT_EQ(store.Read(GossipKey::kReport)[0].incarnation, 2u);
  EXPECT_EQ(store.Read(GossipKey::kReport)[0].version, 1u);
}

// A frozen peer keeps its memory: one frame gets through, and the rest follows.
TEST(Gossip, GoOnAtOnceWithAPeerThatThaws) {
  GossipCluster cluster(kPair, {}, 100);
  cluster.StartAll();
  cluster.set_faults({.loss = 1});
  for (GossipKey key : {GossipKey::kTest, GossipKey::kReport})
    cluster.Publish(0, std::string(100, 'x'), key);
  cluster.Run(30'000);
  cluster.set_faults({});
  ASSERT_TRUE(cluster.Settles(8'000));
  EXPECT_EQ(cluster.Read(1, 0), std::string(100, 'x'));
}

// Delivers `head` as a frame from node 1 to node 0.
DropReason Refusal(GossipCluster& cluster, const GossipHead& head, const std::string& text = "") {
  std::vector<std::byte> frame(kGossipHeadBytes);
  const auto part = std::as_bytes(std::span(text));
  EncodeGossip(head, part, std::span(frame).first<kGossipHeadBytes>());
  frame.insert(frame.end(), part.begin(), part.end());
  return cluster.link(0).Receive(1, frame, cluster.now());
}

TEST(Gossip, AreRefusedForTheReasonThatIsCounted) {
  GossipCluster cluster({3, {{0, 1}, {1, 2}}});
  cluster.StartAll();
  cluster.Publish(0, "abc");
  // An acknowledgement by node 1.
  GossipHead good;
  good.kind = GossipKind::kAck;
  good.key = GossipKey::kReport;
  good.run = GossipCluster::kRun;
  good.source = 1;
  good.incarnation = 1;
  good.version = {1, 1};
  const auto with = [&](auto change, const std::string& text = "") {
    GossipHead head = good;
    change(&head);
    return Refusal(cluster, head, text);
  };
  const auto part = [](GossipHead* head) {
    head->kind = GossipKind::kFragment;
    head->origin = 2;
    head->total = 12;
  };
  EXPECT_EQ(with([](auto*) {}), DropReason::kNone);
  EXPECT_EQ(with([](auto* head) { head->run = 1; }), DropReason::kRun);
  EXPECT_EQ(with([](auto* head) { head->destination = 2; }), DropReason::kDestination);
  EXPECT_EQ(with([](auto* head) { head->incarnation = 9; }), DropReason::kIncarnation);
  EXPECT_EQ(with([](auto* head) { head->source = 2; }), DropReason::kIncarnation);
  EXPECT_EQ(with([](auto* head) { head->origin = 3; }), DropReason::kStranger);
  EXPECT_EQ(with([](auto* head) { head->key = GossipKey::kCount; }), DropReason::kField);
  EXPECT_EQ(with([](auto* head) { head->total = 8; }), DropReason::kField);
  EXPECT_EQ(with([](auto*) {}, "text"), DropReason::kField);
  EXPECT_EQ(with(part, "12345678"), DropReason::kNone);
  EXPECT_EQ(with(part, "1234567"), DropReason::kField);
  EXPECT_EQ(with(part, "1234567890123"), DropReason::kField);
  EXPECT_EQ(with(part), DropReason::kField);
  const auto own = [&](GossipHead* head) {
    part(head);
    head->origin = 0;
  };
  EXPECT_EQ(with(own, "123456789012"), DropReason::kSelf);
  const auto later = [&](GossipHead* head) {
    part(head);
    head->offset = 4;
  };
  EXPECT_EQ(with(later, "56789012"), DropReason::kField);
  std::vector<std::byte> bytes(kGossipHeadBytes);
  EncodeGossip(good, {}, std::span(bytes).first<kGossipHeadBytes>());
  bytes[30] ^= std::byte{1};
  EXPECT_EQ(cluster.link(0).Receive(1, bytes, cluster.now()), DropReason::kChecksum);
  bytes[0] ^= std::byte{1};
  EXPECT_EQ(cluster.link(0).Receive(1, bytes, cluster.now()), DropReason::kMagic);
  bytes.resize(kGossipHeadBytes - 1);
  EXPECT_EQ(cluster.link(0).Receive(1, bytes, cluster.now()), DropReason::kLength);
  EXPECT_EQ(cluster.link(0).stats().drops[DropReason::kField], 7u);
}

}  // namespace
}  // namespace millrace
