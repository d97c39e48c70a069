// Links that are broken between some nodes while other nodes receive frames from both ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <vector>

#include "test/sim/cluster.h"

namespace millrace::sim {
namespace {

// Peer timeouts after which a broken link has led to another view (docs/exchange.md).
constexpr int kTimeouts = 5;
constexpr int kPeerTimeoutTicks = 60;

using Loses = std::function<bool(uint16_t from, uint16_t to, const FrameBytes& frame)>;

class BrokenLink : public testing::Test {
 protected:
  void Start(uint16_t nodes) {
    nodes_ = std::make_unique<Cluster>(ClusterOptions{.nodes = nodes, .size = 10 * nodes});
  }
  Cluster& nodes() { return *nodes_; }
  const View& view(uint16_t node) { return nodes().exchange(node).view(); }

  void Break(const Loses& loses) { nodes().delivers = std::not_fn(loses); }
  // All solvers make progress for `ticks` ticks, each on its own weights.
  void Work(int ticks) {
    const auto count = static_cast<int64_t>(nodes().size());
    for (int t = 0; t < ticks; ++t) {
      for (int64_t node = 0; node < count; ++node) {
        nodes().Add(static_cast<size_t>(node), (t * count + node) % (10 * count), 1);
        ++made_[node];
      }
      nodes().Tick();
    }
  }
  std::set<uint16_t> Members(uint16_t node) {
    std::set<uint16_t> members;
    for (const Member& member : view(node).members) members.insert(member.node);
    return members;
  }
  double Sum(uint16_t node) {
    const std::vector<float>& weights = nodes()[node].weights;
    return std::accumulate(weights.begin(), weights.end(), 0.0);
  }
  // Expects that the nodes `in` form one view without the others and hold equal weights.
  void ExpectView(const std::set<uint16_t>& in) {
    const uint16_t first = *in.begin();
    for (const uint16_t node : in) {
      EXPECT_EQ(view(node).id, view(first).id) << "node " << node;
      EXPECT_EQ(Members(node), in) << "node " << node;
      EXPECT_TRUE(nodes().exchange(node).quiescent()) << "node " << node;
      EXPECT_EQ(nodes()[node].weights, nodes()[first].weights) << "node " << node;
    }
  }
  // Checks the views while the link is broken and after its repair.
  void ExpectViewWithout(const std::set<uint16_t>& without, const Loses& loses) {
    std::set<uint16_t> in;
    for (uint16_t node = 0; node < nodes().size(); ++node) {
      if (!without.count(node)) in.insert(node);
    }
    Work(100);
    Break(loses);
    Work(kTimeouts * kPeerTimeoutTicks);
    nodes().Run(200);
    ExpectView(in);
    for (const uint16_t node : in) EXPECT_EQ(nodes().exchange(node).stats().resets, 0u);
    nodes().delivers = nullptr;
    nodes().Settle();
    std::set<uint16_t> all = in;
    all.insert(without.begin(), without.end());
    ExpectView(all);
    for (const uint16_t node : in) EXPECT_EQ(nodes().exchange(node).stats().resets, 0u);
    // All progress of the nodes that stayed, and at most that of the others.
    double least = 0, most = 0;
    for (const auto& [node, made] : made_) {
      most += made;
      if (in.count(static_cast<uint16_t>(node))) least += made;
    }
    EXPECT_GE(Sum(0), least);
    EXPECT_LE(Sum(0), most);
  }

  // The link between nodes 1 and 2 of three, one way and then both, loses what `is_lost` selects.
  void ExpectViewWithoutOneOfThree(const std::function<bool(const FrameBytes&)>& is_lost) {
    for (const bool both : {false, true}) {
      Start(3);
      made_.clear();
      ExpectViewWithout({2}, [&](uint16_t from, uint16_t to, const FrameBytes& frame) {
        const bool there = from == 1 && to == 2, back = from == 2 && to == 1;
        return is_lost(frame) && (there || (both && back));
      });
    }
  }

  std::unique_ptr<Cluster> nodes_;
  std::map<int64_t, double> made_;
};

// Size of the position of a full chunk.
constexpr size_t kFullPositionBytes = kFrameHeaderBytes + 8 + 40;

bool IsLarge(const FrameBytes& frame) { return frame.view().size() >= kFullPositionBytes; }

TEST_F(BrokenLink, BetweenTwoThatDoNotCoordinateEndsInAViewWithoutOneOfThem) {
  Start(3);
  ExpectViewWithout({2}, [](uint16_t from, uint16_t to, const FrameBytes&) {
    return (from == 1 && to == 2) || (from == 2 && to == 1);
  });
}

TEST_F(BrokenLink, OneWayDoesSoToo) {
  for (const bool up : {false, true}) {
    Start(3);
    made_.clear();
    ExpectViewWithout({2}, [up](uint16_t from, uint16_t to, const FrameBytes&) {
      return up ? from == 2 && to == 1 : from == 1 && to == 2;
    });
  }
}

TEST_F(BrokenLink, ThatCarriesSmallFramesOnlyDoesSoToo) { ExpectViewWithoutOneOfThree(IsLarge); }

// Positions of these chunks are smaller than heartbeats, so they do not show that the link is
// whole.
TEST_F(BrokenLink, ThatCarriesPositionsButNoHeartbeatsDoesSoToo) {
  ExpectViewWithoutOneOfThree(
      [](const FrameBytes& frame) { return frame.view().size() > kFullPositionBytes; });
}

// Heartbeats that are padded to full size, with three nodes; others pass.
bool IsPadded(const FrameBytes& frame) {
  return frame.view().size() >= kFrameHeaderBytes + 8 + Membership::MaxPayloadBytes(3);
}

// On a throttled segment nodes send large frames seldom, and here they lose most of them.
TEST_F(BrokenLink, IsNoneWhereSomeLargeFramesArriveThoughFew) {
  Start(3);
  for (uint16_t node = 0; node < 3; ++node) nodes().exchange(node).SetThrottled(true);
  Work(100);
  const ViewId before = view(0).id;
  std::map<std::pair<uint16_t, uint16_t>, int> large;
  Break([&](uint16_t from, uint16_t to, const FrameBytes& frame) {
    return IsPadded(frame) && ++large[{from, to}] % 8 != 0;
  });
  Work(50 * kPeerTimeoutTicks);
  EXPECT_EQ(view(0).id, before);
  EXPECT_EQ(Members(0), (std::set<uint16_t>{0, 1, 2}));
}

TEST_F(BrokenLink, OfAThrottledSegmentIsFoundByTheLargeFramesThatAreMissed) {
  Start(3);
  for (uint16_t node = 0; node < 3; ++node) nodes().exchange(node).SetThrottled(true);
  Work(100);
  Break([](uint16_t from, uint16_t to, const FrameBytes& frame) {
    return IsPadded(frame) && from == 1 && to == 2;
  });
  Work(LinkMonitor::kMissed / 2 * kPeerTimeoutTicks);
  EXPECT_EQ(Members(0), (std::set<uint16_t>{0, 1, 2}));
  Work((LinkMonitor::kMissed / 2 + kTimeouts) * kPeerTimeoutTicks);
  EXPECT_EQ(Members(0), (std::set<uint16_t>{0, 1}));
}

// Full-size heartbeats take a twentieth of the link in all: 1,600 bytes to each of two nodes once
// in 100 ticks. Else they would be eight in a peer timeout.
TEST_F(BrokenLink, OfASlowLinkIsLookedForWithFewLargeFrames) {
  nodes_ = std::make_unique<Cluster>(ClusterOptions{
      .nodes = 3, .size = 3 * 400, .chunk_floats = 400, .bytes_per_second = 2 * 1600 * 20 * 10});
  int large = 0;
  const auto is_large = [](const FrameBytes& frame) { return frame.view().size() >= 1600; };
  Break([&](uint16_t from, uint16_t to, const FrameBytes& frame) {
    large += from == 1 && to == 2 && is_large(frame);
    return false;
  });
  nodes().Run(6000);
  EXPECT_LE(large, 61);
  EXPECT_GE(large, 50);
  Break([&](uint16_t from, uint16_t to, const FrameBytes& frame) {
    return from == 1 && to == 2 && is_large(frame);
  });
  nodes().Run((LinkMonitor::kMissed + 2) * 100 + kTimeouts * kPeerTimeoutTicks);
  EXPECT_EQ(Members(0), (std::set<uint16_t>{0, 1}));
}

// On a link that carries 20 heartbeats to each of two nodes in `ticks`, heartbeats are so many
// ticks apart and up to half as many more, but not more than an eighth of the peer timeout.
TEST_F(BrokenLink, OfAVerySlowLinkIsFoundThoughHeartbeatsAreFewToo) {
  constexpr int kTimeoutTicks = 800, kLongest = kTimeoutTicks / 8;
  for (const int ticks : {kLongest / 2, 10 * kLongest}) {
    SCOPED_TRACE(ticks);
    const auto bytes = static_cast<double>(kFrameHeaderBytes + 8 + Membership::MaxPayloadBytes(3));
    nodes_ = std::make_unique<Cluster>(
        ClusterOptions{.nodes = 3,
                       .size = 3 * 400,
                       .chunk_floats = 400,
                       .peer_timeout_ticks = kTimeoutTicks,
                       .bytes_per_second = 2 * bytes * 20 * 1000 / static_cast<double>(ticks)});
    int heartbeats = 0;
    Break([&](uint16_t from, uint16_t to, const FrameBytes& frame) {
      heartbeats += from == 1 && to == 2 && frame.decoded().header.type == FrameType::kHeartbeat;
      return false;
    });
    nodes().Run(200);  // joining
    heartbeats = 0;
    nodes().Run(6000);
    const int expected = std::min(ticks, kLongest);
    EXPECT_LE(heartbeats, 6000 / expected);
    EXPECT_GE(heartbeats, 6000 / (2 * expected));
    Break([](uint16_t from, uint16_t to, const FrameBytes&) { return from == 1 && to == 2; });
    nodes().Run(kTimeouts * kTimeoutTicks);
    EXPECT_EQ(Members(0), (std::set<uint16_t>{0, 1}));
  }
}

TEST_F(BrokenLink, FromTheCoordinatorToOneNodeEndsInAViewWithoutThatNode) {
  for (const bool large : {false, true}) {
    Start(4);
    made_.clear();
    ExpectViewWithout({1}, [large](uint16_t from, uint16_t to, const FrameBytes& frame) {
      return from == 0 && to == 1 && (!large || IsLarge(frame));
    });
  }
}

// The node with the most broken links is excluded, even if it is the coordinator.
TEST_F(BrokenLink, OfANodeToAllOthersEndsInAViewWithoutIt) {
  for (const uint16_t node : {0, 1, 3}) {
    for (const bool sends : {false, true}) {
      SCOPED_TRACE(testing::Message() << "node " << node << ", sends " << sends);
      Start(4);
      made_.clear();
      ExpectViewWithout({node}, [=](uint16_t from, uint16_t to, const FrameBytes& frame) {
        return IsLarge(frame) && (sends ? from : to) == node;
      });
    }
  }
}

// The coordinator's small frames still reach all nodes.
TEST_F(BrokenLink, OfTheCoordinatorToMostOthersEndsInAViewWithoutIt) {
  Start(4);
  ExpectViewWithout({0}, [](uint16_t from, uint16_t to, const FrameBytes& frame) {
    return IsLarge(frame) && std::min(from, to) == 0 && std::max(from, to) >= 2;
  });
}

TEST_F(BrokenLink, OfANodeThatHearsNobodyEndsInAViewWithoutIt) {
  for (const uint16_t deaf : {0, 2}) {
    SCOPED_TRACE(testing::Message() << "node " << deaf);
    Start(4);
    made_.clear();
    ExpectViewWithout({deaf}, [=](uint16_t, uint16_t to, const FrameBytes&) { return to == deaf; });
  }
}

TEST_F(BrokenLink, SeveralEndInAViewOfFullyConnectedMembers) {
  Start(6);
  // Links 1-4, 1-5 and 2-3: excludes 1, and 3 as the larger of 2 and 3.
  ExpectViewWithout({1, 3}, [](uint16_t from, uint16_t to, const FrameBytes&) {
    const uint16_t low = std::min(from, to), high = std::max(from, to);
    return (low == 1 && high >= 4) || (low == 2 && high == 3);
  });
}

TEST_F(BrokenLink, KeepsANodeOutUntilItIsMended) {
  Start(3);
  Break([](uint16_t from, uint16_t to, const FrameBytes&) { return from == 1 && to == 2; });
  Work(kTimeouts * kPeerTimeoutTicks);
  const ViewId without = view(0).id;
  ASSERT_EQ(Members(0), (std::set<uint16_t>{0, 1}));
  Work(20 * kPeerTimeoutTicks);
  EXPECT_EQ(view(0).id, without) << "the view changes again and again";
}

TEST_F(BrokenLink, IsNamedByItsEnds) {
  Start(3);
  Break([](uint16_t from, uint16_t to, const FrameBytes&) { return from == 1 && to == 2; });
  for (int i = 0; i < kTimeouts * kPeerTimeoutTicks && nodes().exchange(0).links().broken().empty();
       ++i) {
    Work(1);
  }
  const auto broken = nodes().exchange(0).links().broken();
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken[0], (millrace::BrokenLink{.from = 2, .to = 1}));
}

// Loss of four frames in ten is not a broken link.
TEST_F(BrokenLink, IsNotWhatLosesManyFrames) {
  Start(4);
  uint32_t state = 1;
  Break([&state](uint16_t, uint16_t, const FrameBytes&) {
    state = state * 1664525 + 1013904223;
    return (state >> 16) % 10 < 4;
  });
  Work(2000);
  for (uint16_t node = 0; node < 4; ++node) {
    EXPECT_EQ(nodes().exchange(node).stats().resets, 0u);
    EXPECT_TRUE(nodes().exchange(node).links().broken().empty());
  }
  // At rest, seven heartbeats in a row may be lost: a member is then dropped as unresponsive. No
  // link counts as broken for it.
  nodes().Run(1000);
  for (uint16_t node = 0; node < 4; ++node) {
    EXPECT_TRUE(nodes().exchange(node).links().broken().empty());
  }
}

// An idle exchange sends no positions, so that some heartbeats, not all, must be as large.
TEST_F(BrokenLink, IsFoundAtRestToo) {
  Start(3);
  Break([](uint16_t from, uint16_t to, const FrameBytes& frame) {
    return from == 1 && to == 2 && IsLarge(frame);
  });
  nodes().Run(kTimeouts * kPeerTimeoutTicks);
  EXPECT_EQ(Members(0), (std::set<uint16_t>{0, 1}));
}

}  // namespace
}  // namespace millrace::sim
