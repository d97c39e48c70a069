// Exchanges over links that lose a tenth of all frames.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "test/sim/cluster.h"

namespace millrace {
namespace {

using sim::Cluster;

constexpr int64_t kPeerTimeoutTicks = 400;

struct Links {
  uint16_t nodes = 2;
  bool throttled = false;
  size_t room = 16;  // frames in a tick
  double loss = 0;
};

// Nodes that train for a second over such links, and then end.
class Training {
 public:
  explicit Training(const Links& links)
      : x_({.nodes = links.nodes,
            .size = 3000,
            .chunk_floats = 10,
            .faults = {.loss = links.loss, .rate = 256},
            .seed = 1,
            .peer_timeout_ticks = kPeerTimeoutTicks}) {
    x_.SetRoom(links.room);
    for (int tick = 0; tick < 1000; ++tick) {
      for (size_t node = 0; node < x_.size(); ++node) {
        x_.exchange(node).SetThrottled(links.throttled);
      }
      x_.Tick([](uint16_t, std::vector<float>& weights) {
        for (float& weight : weights) weight += 1;
      });
    }
  }

  uint64_t merged() {
    uint64_t sum = 0;
    for (size_t node = 0; node < x_.size(); ++node) sum += x_.exchange(node).stats().diffs_merged;
    return sum;
  }

  // Ticks until all nodes have all progress.
  int64_t End() {
    const int64_t begin = x_.tick();
    x_.SetRoom(256);
    x_.Flush();
    return x_.tick() - begin;
  }

 private:
  Cluster x_;
};

double MergedOfThoseWithoutLoss(Links links) {
  const auto whole = static_cast<double>(Training(links).merged());
  links.loss = 0.1;
  return static_cast<double>(Training(links).merged()) / whole;
}

// A fifth of all diffs is lost, or their answers are.
TEST(LossyExchange, MergesNearlyAsManyDiffs) {
  EXPECT_GE(MergedOfThoseWithoutLoss({.nodes = 2}), 0.7);
  EXPECT_GE(MergedOfThoseWithoutLoss({.nodes = 4}), 0.75);
}

TEST(LossyExchange, MergesNearlyAsManyDiffsWhileThrottled) {
  EXPECT_GE(MergedOfThoseWithoutLoss({.nodes = 2, .throttled = true}), 0.7);
  EXPECT_GE(MergedOfThoseWithoutLoss({.nodes = 2, .throttled = true, .room = 64}), 0.5);
  EXPECT_GE(MergedOfThoseWithoutLoss({.nodes = 4, .throttled = true, .room = 64}), 0.8);
}

// Whatever the reply times were while all nodes trained.
TEST(LossyExchange, EndsWithinAPeerTimeout) {
  for (const uint16_t nodes : {2, 4}) {
    for (const bool throttled : {false, true}) {
      for (const size_t room : {4, 64}) {
        Training training({.nodes = nodes, .throttled = throttled, .room = room, .loss = 0.1});
        EXPECT_LE(training.End(), kPeerTimeoutTicks) << nodes << " " << throttled << " " << room;
      }
    }
  }
}

// A slow link brings no reply for long. A diff is sent again at growing intervals of up to four
// times what the link takes for all weights, here 2,000 ticks, and arrives once the link is whole.
TEST(SlowExchange, SendsTheSameAgainMoreAndMoreSeldom) {
  constexpr int64_t kChunks = 40, kPauseTicks = 2000;
  const auto full = std::max<size_t>(40, Membership::MaxPayloadBytes(2));
  Cluster x({.nodes = 2,
             .size = 10 * kChunks,
             .chunk_floats = 10,
             .faults = {.rate = 256},
             .seed = 1,
             .peer_timeout_ticks = kPeerTimeoutTicks,
             .bytes_per_second = static_cast<double>(4 * kChunks * full) / (kPauseTicks * 1e-3)});
  x.delivers = [](uint16_t from, uint16_t, const sim::FrameBytes& frame) {
    return from != 1 || frame.decoded().header.type != FrameType::kDiff;
  };
  for (int64_t weight = 0; weight < 10 * kChunks; ++weight) x.Add(1, weight, 1);
  x.Run(10 * kPauseTicks);
  const uint64_t diffs = kChunks / 2;  // node 0 masters the other half
  EXPECT_GE(x.exchange(1).stats().resends, 10 * diffs);
  EXPECT_LE(x.exchange(1).stats().resends, 20 * diffs);
  x.delivers = nullptr;
  x.Run(2 * kPauseTicks);
  EXPECT_EQ(x[0].weights, std::vector<float>(10 * kChunks, 1));
}

}  // namespace
}  // namespace millrace
