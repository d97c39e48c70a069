#include "segment/gossip/gossip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "test/segment/bad_links.h"
#include "test/segment/handshake_harness.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::Faults;
using test::kMs;
using test::kRun;

// Nodes on segments with bad links. Nodes of a segment have sessions as soon as both run.
class Post {
 public:
  Post(size_t nodes, std::vector<std::vector<NodeId>> segments, Faults faults = {},
       size_t frame_bytes = 300, uint64_t seed_name = 0)
      : segments_(std::move(segments)),
        frame_bytes_(frame_bytes),
        links_(faults, Rng(test::Seed(), {79, seed_name})),
        nodes_(nodes),
        sessions_(nodes) {}

  void Start(NodeId node) {
    Node& one = nodes_[node];
    one = {};
    ++sessions_[node];
    one.store = std::make_unique<GossipStore>(nodes_.size(), node, sessions_[node]);
    one.links.resize(segments_.size());
    for (size_t s = 0; s < segments_.size(); ++s) {
      if (!On(s, node)) continue;
      GossipConfig config;
      config.run = kRun + s;
      config.node = node;
      config.incarnation = sessions_[node];
      config.max_frame_bytes = frame_bytes_;
      std::copy_if(segments_[s].begin(), segments_[s].end(), std::back_inserter(config.peers),
                   [&](NodeId peer) { return peer != node; });
      one.links[s] = std::make_unique<Gossip>(config, one.store.get());
    }
    Establish();
  }
  void StartAll() {
    for (size_t i = 0; i < nodes_.size(); ++i) Start(static_cast<NodeId>(i));
  }
  void Stop(NodeId node) { nodes_[node] = {}; }
  void set_faults(const Faults& faults) { links_.set_faults(faults); }

  void Say(NodeId node, const std::string& text, GossipKey key = GossipKey::kReport) {
    nodes_[node].store->Publish(key, std::as_bytes(std::span(text)));
  }
  // Message of `who` as received by `node`; "-" if none.
  std::string Received(NodeId node, NodeId who, GossipKey key = GossipKey::kReport) const {
    for (const GossipMessage& each : nodes_[node].store->Read(key)) {
      if (each.node != who) continue;
      return {reinterpret_cast<const char*>(each.bytes.data()), each.bytes.size()};
    }
    return "-";
  }
  bool AllHeard(NodeId who, const std::string& text) const {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].store && Received(static_cast<NodeId>(i), who) != text) return false;
    }
    return true;
  }

  void Run(int64_t ms) {
    for (const int64_t end = now_ + ms * kMs; now_ < end; now_ += kMs) Step();
  }
  // Runs until no frame is in flight and no node has anything left to send; false if that takes
  // longer than `ms`.
  bool Settles(int64_t ms) {
    for (const int64_t end = now_ + ms * kMs; now_ < end; now_ += kMs) {
      Step();
      if (Quiet()) return true;
    }
    return false;
  }
  bool Quiet() const {
    if (!links_.empty()) return false;
    for (const Node& node : nodes_) {
      for (const auto& link : node.links) {
        if (link && link->NextEvent() != INT64_MAX) return false;
      }
    }
    return true;
  }
  Gossip& link(NodeId node, size_t segment = 0) { return *nodes_[node].links[segment]; }
  GossipStore& store(NodeId node) { return *nodes_[node].store; }
  size_t sent() const { return sent_; }
  int64_t now() const { return now_; }

 private:
  struct Node {
    std::unique_ptr<GossipStore> store;
    std::vector<std::unique_ptr<Gossip>> links;
  };
  struct Delivery {
    size_t segment;
    NodeId from, to;
    std::vector<std::byte> bytes;
  };

  bool On(size_t segment, NodeId node) const {
    const auto& on = segments_[segment];
    return std::find(on.begin(), on.end(), node) != on.end();
  }
  void Establish() {
    for (size_t s = 0; s < segments_.size(); ++s) {
      for (NodeId a : segments_[s]) {
        for (NodeId b : segments_[s]) {
          if (a != b && nodes_[a].store && nodes_[b].store) link(a, s).Admit(b, sessions_[b]);
        }
      }
    }
  }
  void Step() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (size_t s = 0; s < nodes_[i].links.size(); ++s) {
        Gossip* link = nodes_[i].links[s].get();
        if (link == nullptr || link->NextEvent() > now_) continue;
        std::vector<OutGossip> room(3);
        const size_t count = link->Send(room, now_);
        for (size_t k = 0; k < count; ++k) Carry(static_cast<NodeId>(i), s, &room[k]);
      }
    }
    for (const Delivery& each : links_.Arrived(now_)) {
      if (nodes_[each.to].store) link(each.to, each.segment).Receive(each.from, each.bytes, now_);
    }
  }
  void Carry(NodeId from, size_t segment, OutGossip* out) {
    ++sent_;
    const std::vector<std::byte> bytes(out->frame().begin(), out->frame().end());
    EXPECT_LE(bytes.size(), frame_bytes_);
    links_.Carry({segment, from, out->to, bytes}, now_);
  }

  const std::vector<std::vector<NodeId>> segments_;
  const size_t frame_bytes_;
  test::BadLinks<Delivery> links_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> sessions_;
  int64_t now_ = 1;
  size_t sent_ = 0;
};

const std::vector<std::vector<NodeId>> kPair = {{0, 1}};

TEST(Gossip, AreDeliveredOnceAndThenNoFramesFollow) {
  Post post(3, {{0, 1, 2}});
  post.StartAll();
  post.Say(0, "hello");
  post.Run(2);
  EXPECT_TRUE(post.AllHeard(0, "hello"));
  EXPECT_FALSE(post.link(0).Has(1, post.store(0).changes()));  // its acknowledgement is in flight
  ASSERT_TRUE(post.Settles(50));
  EXPECT_TRUE(post.link(0).Has(1, post.store(0).changes()));
  EXPECT_EQ(post.sent(), 4u);  // to each of two peers, and their acknowledgements
  EXPECT_EQ(post.Received(1, 0, GossipKey::kTest), "-");
  post.Say(0, "newer");
  EXPECT_FALSE(post.link(0).Has(1, post.store(0).changes()));
  post.Say(0, "");
  ASSERT_TRUE(post.Settles(50));
  EXPECT_TRUE(post.AllHeard(0, ""));
  EXPECT_EQ(post.sent(), 8u);  // a message that is replaced at once is never sent
}

TEST(Gossip, ComeInPartsWhereFramesAreShort) {
  for (size_t frame_bytes : {72u, 100u, 300u, 1088u, 9000u}) {
    Post post(2, kPair, {.loss = 0.2, .duplicates = 0.2, .jitter_ns = 5 * kMs}, frame_bytes,
              frame_bytes);
    post.StartAll();
    for (size_t bytes : {size_t{1}, size_t{8}, size_t{500}, kMaxGossipBytes}) {
      std::string text;
      for (size_t i = 0; i < bytes; ++i) text += static_cast<char>('a' + i * 7 % 26);
      post.Say(1, text);
      // A fragment that is lost in every round is retransmitted in turn with others, one per
      // second.
      ASSERT_TRUE(post.Settles(1'000'000)) << frame_bytes << ' ' << bytes;
      EXPECT_EQ(post.Received(0, 1), text);
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
    Post post(5, {{0, 1}, {1, 2}, {2, 3, 4}},
              {.loss = 0.3, .duplicates = 0.2, .jitter_ns = 30 * kMs}, 200, seed);
    post.StartAll();
    Rng rng(test::Seed(), {80, seed});
    std::vector<std::string> newest(5, "-");
    for (int i = 0; i < 60; ++i) {
      const auto node = static_cast<NodeId>(rng.Below(5));
      newest[node] = std::string(rng.Below(400), 'a') + std::to_string(i);
      post.Say(node, newest[node]);
      post.Run(static_cast<int64_t>(rng.Below(40)));
    }
    ASSERT_TRUE(post.Settles(120'000)) << seed;
    for (NodeId node = 0; node < 5; ++node) EXPECT_TRUE(post.AllHeard(node, newest[node]));
  }
}

TEST(Gossip, OfANodeThatStartsAnewReplaceAllThatItSaidBefore) {
  Post post(3, {{0, 1}, {1, 2}}, {.jitter_ns = 20 * kMs});
  post.StartAll();
  for (int i = 0; i < 5; ++i) post.Say(0, "old");
  post.Say(0, "old test", GossipKey::kTest);
  post.Say(2, "from 2");
  ASSERT_TRUE(post.Settles(5'000));
  EXPECT_EQ(post.Received(2, 0, GossipKey::kTest), "old test");
  post.Start(0);  // receives the others' messages again and publishes nothing yet
  ASSERT_TRUE(post.Settles(5'000));
  EXPECT_EQ(post.Received(0, 2), "from 2");
  EXPECT_EQ(post.Received(2, 0), "old");
  post.Say(0, "new");
  ASSERT_TRUE(post.Settles(5'000));
  EXPECT_TRUE(post.AllHeard(0, "new"));
  for (NodeId node = 0; node < 3; ++node) EXPECT_EQ(post.Received(node, 0, GossipKey::kTest), "-");
  EXPECT_EQ(post.store(2).Read(GossipKey::kReport)[0].incarnation, 2u);
  EXPECT_EQ(post.store(2).Read(GossipKey::kReport)[0].version, 1u);
  // The middle node loses its state and receives all messages from both sides.
  post.Start(1);
  ASSERT_TRUE(post.Settles(5'000));
  EXPECT_EQ(post.Received(1, 0), "new");
  EXPECT_EQ(post.Received(1, 2), "from 2");
}

TEST(Gossip, ToAPeerThatIsGoneBecomeOneFrameASecond) {
  Post post(2, kPair, {}, 100);
  post.StartAll();
  ASSERT_TRUE(post.Settles(10));
  post.Stop(1);
  post.Say(0, std::string(1000, 'x'));
  post.Run(10'000);
  const size_t before = post.sent();
  post.Run(20'000);
  EXPECT_LE(post.sent() - before, 20u);
  EXPECT_GE(post.sent() - before, 12u);
  post.Say(0, std::string(1000, 'y'));
  post.Run(10);
  EXPECT_LE(post.sent() - before, 21u);
  post.Start(1);
  ASSERT_TRUE(post.Settles(1'000));
  EXPECT_EQ(post.Received(1, 0), std::string(1000, 'y'));
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
  Post post(2, kPair, {}, 100);
  post.StartAll();
  post.set_faults({.loss = 1});
  for (GossipKey key : {GossipKey::kTest, GossipKey::kReport})
    post.Say(0, std::string(100, 'x'), key);
  post.Run(30'000);
  post.set_faults({});
  ASSERT_TRUE(post.Settles(8'000));
  EXPECT_EQ(post.Received(1, 0), std::string(100, 'x'));
}

// Delivers `head` as a frame from node 1 to node 0.
DropReason Refusal(Post& post, const GossipHead& head, const std::string& text = "") {
  std::vector<std::byte> frame(kGossipHeadBytes);
  const auto part = std::as_bytes(std::span(text));
  EncodeGossip(head, part, std::span(frame).first<kGossipHeadBytes>());
  frame.insert(frame.end(), part.begin(), part.end());
  return post.link(0).Receive(1, frame, post.now());
}

TEST(Gossip, AreRefusedForTheReasonThatIsCounted) {
  Post post(3, {{0, 1}, {1, 2}});
  post.StartAll();
  post.Say(0, "abc");
  // An acknowledgement by node 1.
  GossipHead good;
  good.kind = GossipKind::kAck;
  good.key = GossipKey::kReport;
  good.run = kRun;
  good.source = 1;
  good.incarnation = 1;
  good.version = {1, 1};
  const auto with = [&](auto change, const std::string& text = "") {
    GossipHead head = good;
    change(&head);
    return Refusal(post, head, text);
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
  EXPECT_EQ(post.link(0).Receive(1, bytes, post.now()), DropReason::kChecksum);
  bytes[0] ^= std::byte{1};
  EXPECT_EQ(post.link(0).Receive(1, bytes, post.now()), DropReason::kMagic);
  bytes.resize(kGossipHeadBytes - 1);
  EXPECT_EQ(post.link(0).Receive(1, bytes, post.now()), DropReason::kLength);
  EXPECT_EQ(post.link(0).stats().drops[DropReason::kField], 7u);
}

}  // namespace
}  // namespace millrace
