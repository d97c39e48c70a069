// A node restarts with an incarnation that is not larger than the one its peers know, as after its
// clock was set back. It takes a larger incarnation and joins.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "test/sim/segment_cluster.h"
#include "test/support/support.h"
#include "transport/faulty/transport.h"

namespace millrace {
namespace {

// Nodes with or without a key, with gossip messages, and with links that can be partitioned.
class Restarting : public sim::SegmentCluster {
 public:
  Restarting(int nodes, bool keyed) : SegmentCluster(nodes, 500, ConfigOf(keyed)) {
    const auto plain = connect;
    connect = [this, plain](int node) -> std::unique_ptr<Transport> {
      auto faulty = std::make_unique<FaultyTransport>(plain(node), FaultPlan{});
      links[node] = faulty.get();
      return faulty;
    };
    gossip = [this, nodes](int node) {
      const auto id = static_cast<NodeId>(node);
      return stores[node] = std::make_shared<GossipStore>(nodes, id, incarnations[node]);
    };
  }
  void StartAs(int node, uint32_t incarnation) {
    incarnations[node] = incarnation;
    Start(node, 0, incarnation);
  }
  void Say(int node, const std::string& text) {
    stores[node]->Publish(GossipKey::kReport, std::as_bytes(std::span(text)));
  }
  // Message of `who` as received by `node`; "-" if none.
  std::string Received(int node, NodeId who) {
    for (const GossipMessage& each : stores[node]->Read(GossipKey::kReport)) {
      if (each.node != who) continue;
      return {reinterpret_cast<const char*>(each.bytes.data()), each.bytes.size()};
    }
    return "-";
  }

  std::map<int, FaultyTransport*> links;
  std::map<int, uint32_t> incarnations;
  std::map<int, std::shared_ptr<GossipStore>> stores;

 private:
  static NetSegmentConfig ConfigOf(bool keyed) {
    NetSegmentConfig config;
    if (keyed) config.filter.key = std::make_shared<const SecretKey>(sim::KeyOf('k'));
    return config;
  }
};

// `gone_ms`: time from the end of the earlier start to the later start. `incarnation`: that of the
// later start.
void ExpectToJoin(bool keyed, int64_t gone_ms, uint32_t incarnation) {
  SCOPED_TRACE(
      StrCat(keyed ? "with" : "without", " a key, gone for ", gone_ms, " ms, as ", incarnation));
  Restarting segment(2, keyed);
  segment.StartAs(0, 900);
  segment.StartAs(1, 1000);
  segment.Run(3000);
  ASSERT_TRUE(segment.Together());
  segment.Say(1, "before");
  segment.TakeTurns(500);
  segment.Kill(1);
  segment.Run(gone_ms);
  ASSERT_EQ(segment.Received(0, 1), "before");
  segment.StartAs(1, incarnation);
  segment.Say(1, "after");
  segment.Run(5000);
  EXPECT_TRUE(segment.Together());
  EXPECT_EQ(segment.Received(0, 1), "after");
  segment.TakeTurns(500);
  segment.Run(2000);
  EXPECT_EQ(segment.weights(1), segment.weights(0));
  segment.Say(0, "answer");
  segment.Say(1, "again");
  segment.Run(500);
  EXPECT_EQ(segment.Received(0, 1), "again");
  EXPECT_EQ(segment.Received(1, 0), "answer");
}

TEST(EarlierStart, TakesALaterIncarnationAndJoins) {
  for (const bool keyed : {false, true}) {
    for (const int64_t gone_ms : {1, 10'000}) {
      for (const uint32_t incarnation : {1u, 999u, 1000u}) {
        ExpectToJoin(keyed, gone_ms, incarnation);
      }
    }
  }
}

// Node 1 trains with node 2, which does not know its earlier start, and then meets node 0, which
// does.
TEST(EarlierStart, TakesALaterIncarnationWhileItTrainsWithOthers) {
  for (const bool keyed : {false, true}) {
    SCOPED_TRACE(keyed);
    Restarting segment(3, keyed);
    segment.StartAs(0, 900);
    segment.StartAs(1, 1000);
    segment.Run(3000);
    segment.Kill(1);
    segment.Run(3000);
    for (const NodeId peer : {1, 2}) segment.links[0]->Partition(peer, true);
    segment.StartAs(1, 10);
    segment.StartAs(2, 20);
    segment.Run(3000);
    EXPECT_EQ(segment.net(1).state().members(), 2u);
    segment.Say(1, "hello");
    for (const NodeId peer : {1, 2}) segment.links[0]->Partition(peer, false);
    segment.Run(10'000);
    EXPECT_TRUE(segment.Together());
    EXPECT_EQ(segment.Received(0, 1), "hello");
    EXPECT_EQ(segment.Received(2, 1), "hello");
    segment.TakeTurns(900);
    segment.Run(2000);
    for (const int node : {1, 2}) EXPECT_EQ(segment.weights(node), segment.weights(0));
  }
}

}  // namespace
}  // namespace millrace
