// Gossip messages between complete nodes, with their threads.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "millrace/transport_registry.h"
#include "test/support/cluster_node.h"
#include "test/support/eventually.h"
#include "transport/loopback/transport.h"

namespace millrace {
namespace {

using test::Eventually;

constexpr int64_t kFloats = 500;
constexpr uint16_t kNodes = 3;

std::vector<test::SegmentEnd> EndsOf(NodeId node, uint32_t incarnation,
                                     std::vector<std::unique_ptr<Transport>> transports, bool keyed,
                                     const std::shared_ptr<GossipStore>& store) {
  std::vector<test::SegmentEnd> ends;
  for (auto& transport : transports) {
    NetSegmentConfig config = test::EndConfig(node, kNodes, incarnation);
    config.exchange.bootstrap_after_ns = node == 0 ? 50'000'000 : -1;
    if (keyed) config.filter.key = std::make_shared<const SecretKey>();
    config.gossip = store;
    ends.push_back({std::move(config), std::move(transport)});
  }
  return ends;
}

class Node {
 public:
  Node(NodeId node, std::vector<std::unique_ptr<Transport>> transports, bool keyed = false) {
    const uint32_t incarnation = test::NewIncarnation();
    const auto store = std::make_shared<GossipStore>(kNodes, node, incarnation);
    node_ = std::make_unique<test::ClusterNode>(
        EndsOf(node, incarnation, std::move(transports), keyed, store), std::vector<float>(kFloats),
        0, store);
  }
  void Say(const std::string& text) {
    cluster().Publish(GossipKey::kReport, std::as_bytes(std::span(text)));
  }
  // Messages this node has received, as "0 text, 2 text".
  std::string Received() const {
    std::string all;
    for (const GossipMessage& each : cluster().Read(GossipKey::kReport)) {
      const auto* text = reinterpret_cast<const char*>(each.bytes.data());
      all += StrCat(all.empty() ? "" : ", ", each.node, " ", std::string(text, each.bytes.size()));
    }
    return all;
  }
  Cluster& cluster() const { return node_->cluster(); }

 private:
  std::unique_ptr<test::ClusterNode> node_;
};

template <typename... Ends>
std::vector<std::unique_ptr<Transport>> Connect(Ends... ends) {
  std::vector<std::unique_ptr<Transport>> all;
  (all.push_back(std::move(ends)), ...);
  return all;
}

TEST(ClusterGossip, ReachNodesThatShareNoSegmentAndThoseThatStartAnew) {
  LoopbackHub upper(LoopbackOptions{.nodes = kNodes}), lower(LoopbackOptions{.nodes = kNodes});
  Node a(0, Connect(upper.Connect(0)));
  auto b = std::make_unique<Node>(1, Connect(upper.Connect(1), lower.Connect(1)));
  auto c = std::make_unique<Node>(2, Connect(lower.Connect(2)));
  a.Say("from a");
  b->Say("from b");
  c->Say("from c");
  const std::string all = "0 from a, 1 from b, 2 from c";
  for (const Node* node : {&a, b.get(), c.get()}) {
    EXPECT_TRUE(Eventually([&] { return node->Received() == all; })) << node->Received();
  }
  EXPECT_TRUE(Eventually([&] { return a.cluster().all_acked() && b->cluster().all_acked(); }));
  EXPECT_EQ(c->cluster().Read(GossipKey::kTest).size(), 0u);
  EXPECT_EQ(b->cluster().node(), 1);
  // The middle node restarts: it receives the messages of both others again, and has sent none yet.
  b.reset();
  b = std::make_unique<Node>(1, Connect(upper.Connect(1), lower.Connect(1)));
  EXPECT_TRUE(Eventually([&] { return b->Received() == "0 from a, 2 from c"; })) << b->Received();
  c.reset();
  c = std::make_unique<Node>(2, Connect(lower.Connect(2)));
  c->Say("from c again");
  EXPECT_TRUE(Eventually([&] { return a.Received() == "0 from a, 1 from b, 2 from c again"; }))
      << a.Received();
}

TEST(ClusterGossip, TravelOverUdpSignedAndInFragments) {
  std::vector<std::unique_ptr<Node>> nodes;
  std::string peers[kNodes];
  for (int i = 0; i < kNodes; ++i) {
    for (int j = 0; j < kNodes; ++j) {
      if (i != j) peers[i] += StrCat(peers[i].empty() ? "" : ",", j, "=127.0.0.", j + 1, ":29551");
    }
  }
  for (int i = 0; i < kNodes; ++i) {
    TransportConfig config;
    config.transport = "udp";
    config.node = static_cast<NodeId>(i);
    config.options = {{"address", StrCat("127.0.0.", i + 1, ":29551")},
                      {"peers", peers[i]},
                      {"max_frame_bytes", "400"}};
    nodes.push_back(std::make_unique<Node>(static_cast<NodeId>(i),
                                           Connect(TransportRegistry::Get().Create(config)), true));
  }
  std::string all;
  for (int i = 0; i < kNodes; ++i) {
    const std::string text(kMaxGossipBytes - i, static_cast<char>('x' + i));
    nodes[i]->Say(text);
    all += StrCat(i > 0 ? ", " : "", i, " ", text);
  }
  for (const auto& node : nodes) {
    EXPECT_TRUE(Eventually([&] { return node->Received() == all; })) << node->Received();
  }
  EXPECT_THROW(nodes[0]->Say(std::string(kMaxGossipBytes + 1, 'x')), Error);
}

}  // namespace
}  // namespace millrace
