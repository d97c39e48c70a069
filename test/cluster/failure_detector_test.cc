// How long after its last frame a peer counts as responsive.
#include "cluster/failure_detector.h"

#include <gtest/gtest.h>

#include "proto/gossip.pb.h"
#include "test/support/cluster_node.h"
#include "test/support/eventually.h"
#include "test/support/fake_clock.h"
#include "test/support/log_watch.h"
#include "transport/loopback/transport.h"

namespace millrace::test {
namespace {

constexpr int64_t kSecond = 1'000'000'000, kStepNs = 100'000'000;

// Node n0 and its peer n1, which has died, or ended after it published that it `leaves`. The
// detector's time is the test's.
class FailureDetection {
 public:
  FailureDetection(int64_t heartbeat_ns, int64_t peer_timeout_ns, bool leaves = false)
      : hub_({.nodes = 2}) {
    const auto make = [&](NodeId node) {
      std::vector<SegmentEnd> ends;
      ends.push_back({EndConfig(node, 2, NewIncarnation()), hub_.Connect(node)});
      ends.back().config.exchange.bootstrap_after_ns = node == 0 ? 1'000'000 : -1;
      ends.back().config.exchange.heartbeat_ns = heartbeat_ns;
      ends.back().config.exchange.peer_timeout_ns = peer_timeout_ns;
      const auto gossip =
          std::make_shared<GossipStore>(2, node, ends.back().config.exchange.incarnation);
      ends.back().config.gossip = gossip;
      return std::make_unique<ClusterNode>(std::move(ends), std::vector<float>(64), 0, gossip);
    };
    node_ = make(0);
    EXPECT_TRUE(Eventually([&] { return node_->cluster().begun(); }));
    auto peer = make(1);
    EXPECT_TRUE(Eventually([&] { return peer->cluster().begun(); }));
    RunEnd end;
    end.set_gone(leaves);
    const std::string bytes = end.SerializeAsString();
    peer->cluster().Publish(GossipKey::kEnd, std::as_bytes(std::span(bytes)));
    EXPECT_TRUE(Eventually([&] { return !node_->cluster().Read(GossipKey::kEnd).empty(); }));
    peer.reset();
    detector_.emplace(&node_->cluster(), &clock_);
    // Frames come in order: when this one, which is none, has been dropped, the peer's last frame
    // has been counted.
    const std::byte junk[3] = {};
    const OutFrame fence = {0, {}, junk};
    EXPECT_EQ(hub_.Connect(1)->Send({&fence, 1}).accepted, 1u);
    EXPECT_TRUE(Eventually([&] { return metrics().dropped(DropComponent::kFilter) > 0; }));
    EXPECT_EQ(detector_->ResponsivePeers(Recency::kInTime), std::vector<NodeId>{1});
  }
  // Seconds since the last frame until the peer no longer counts.
  double Until(Recency recency) {
    const int64_t begin = clock_.NowNs();
    while (!detector_->ResponsivePeers(recency).empty()) clock_.AdvanceNs(kStepNs);
    return static_cast<double>(clock_.NowNs() - begin) / kSecond;
  }

 private:
  const SegmentMetrics& metrics() const { return node_->cluster().segments()[0].net->metrics(); }

  LoopbackHub hub_;
  FakeClock clock_;
  std::unique_ptr<ClusterNode> node_;
  std::optional<FailureDetector> detector_;
};

TEST(FailureDetector, FollowsThePeerTimeoutOfTheSegment) {
  FailureDetection patient(20'000'000, 10 * kSecond);
  EXPECT_NEAR(patient.Until(Recency::kLately), 5, 0.2);
  EXPECT_NEAR(patient.Until(Recency::kInTime), 5, 0.2);
  FailureDetection usual(100'000'000, 2 * kSecond);
  EXPECT_NEAR(usual.Until(Recency::kLately), 1, 0.2);
  EXPECT_NEAR(usual.Until(Recency::kInTime), 1, 0.2);
}

TEST(FailureDetector, TellsAPeerThatHasLeftFromOneThatHasDied) {
  for (const bool leaves : {false, true}) {
    const LogWatch log;
    FailureDetection detection(100'000'000, 2 * kSecond, leaves);
    EXPECT_NEAR(detection.Until(Recency::kInTime), 2, 0.2);
    EXPECT_EQ(log.Count("Node n1 has left segment s0"), leaves ? 1 : 0);
    EXPECT_EQ(log.Count("Node n1 is unresponsive on segment s0"), leaves ? 0 : 1);
  }
}

// A peer at rest may send heartbeats only.
TEST(FailureDetector, ExpectsAFrameOnlyAsOftenAsHeartbeatsCome) {
  FailureDetection slow(kSecond, 3 * kSecond);
  EXPECT_NEAR(slow.Until(Recency::kLately), 2, 0.2);
}

}  // namespace
}  // namespace millrace::test
