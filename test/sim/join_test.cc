// Nodes join beside one that asks to join and receives nothing from the coordinator.
#include <gtest/gtest.h>

#include "test/sim/cluster.h"

namespace millrace::sim {
namespace {

// Lets node 0 and all nodes but `deaf` reach each other. Node `deaf` receives nothing from node 0.
void Deafen(Cluster* x, uint16_t deaf) {
  x->delivers = [deaf](uint16_t from, uint16_t to, const FrameBytes&) {
    return from != 0 || to != deaf;
  };
}

TEST(Join, TakesAFewPeerTimeoutsBesideANodeThatDoesNotAnswer) {
  for (const int start : {0, 10, 50, 100, 200, 500}) {
    Cluster x({.nodes = 4, .joined = false});
    Deafen(&x, 3);
    x[2].stopped = x[3].stopped = true;
    x.Run(200);
    x[3].stopped = false;
    x.Run(start);
    x[2].stopped = false;
    int ticks = 0;
    for (; ticks < 1000 && !x.exchange(2).in_sync(); ++ticks) x.Tick();
    EXPECT_LE(ticks, 150) << "start " << start;  // the peer timeout is 60 ticks
  }
}

// Ticks until nodes 0 to 22 of 24 are in sync, where all but the first start within 100 ticks.
int TicksOfMany(bool deaf, double loss, int64_t delay, uint64_t seed) {
  constexpr uint16_t kNodes = 24;
  Cluster x({.nodes = kNodes,
             .size = 240,
             .chunk_floats = 10,
             .faults = {.loss = loss, .delay_max = delay, .rate = 256},
             .seed = seed,
             .joined = false});
  if (deaf) Deafen(&x, kNodes - 1);
  for (size_t node = 1; node < kNodes; ++node) x[node].stopped = true;
  for (int tick = 0; tick < 6000; ++tick) {
    bool all = true;
    for (size_t node = 1; node < kNodes; ++node) {
      if (tick == 50 + static_cast<int>(node * 37 % 100)) x[node].stopped = false;
      all &= !x[node].stopped && (node == kNodes - 1 || x.exchange(node).in_sync());
    }
    if (all) return tick;
    x.Tick();
  }
  return 6000;
}

TEST(Join, OfManyNodesIsLittleSlowerBesideOneThatDoesNotAnswer) {
  for (const double loss : {0.0, 0.05}) {
    for (const int64_t delay : {1, 4}) {
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        const int alone = TicksOfMany(false, loss, delay, seed);
        EXPECT_LE(TicksOfMany(true, loss, delay, seed), alone + 300)
            << "loss " << loss << ", delay " << delay << ", seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::sim
