// An exchange in steady state: it allocates no memory, is quiescent without progress, and
// reports when it must run next.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "exchange/protocol/exchange.h"
#include "test/sim/cluster.h"

namespace {

thread_local bool counting = false;
thread_local int allocations = 0;

}  // namespace

// Replaces the allocator of the whole test program.
__attribute__((noinline)) void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  allocations += counting;
  return std::malloc(bytes > 0 ? bytes : 1);
}
__attribute__((noinline)) void* operator new(size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (!memory) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace millrace {
namespace {

using sim::Cluster;
using sim::FrameBytes;
using sim::kTickNs;

TEST(Exchange, AllocatesNothingInSteadyState) {
  for (const Codec codec :
       {Codec::kFloat32, Codec::kBfloat16, Codec::kInt8, Codec::kInt4, Codec::kSparse}) {
    Cluster x({.nodes = 3, .size = 1000, .codec = {codec, 0.5f}, .position_codec = codec});
    int count = 0;
    x.delivers = [&](uint16_t, uint16_t, const FrameBytes&) { return ++count % 7 != 0; };
    x.entering = [] { counting = true; };
    x.leaving = [] { counting = false; };
    allocations = 0;
    for (int tick = 0; tick < 300; ++tick) {
      for (size_t node : {0, 1, 2}) x.Add(node, (37 * tick + 11 * node) % 1000, 1);
      x.Tick();
    }
    EXPECT_EQ(allocations, 0);
    EXPECT_GT(x.exchange(0).stats().diffs_merged, 100u);
    EXPECT_GT(x.exchange(0).stats().resends, 0u);
  }
}

TEST(Exchange, IsStillWithoutProgressAndWakesOnTheFirst) {
  Cluster x({.nodes = 3});
  const uint64_t before = x.frames();
  x.Run(500);
  EXPECT_EQ(x.frames(), before);
  for (size_t node : {0, 1, 2}) {
    EXPECT_TRUE(x.exchange(node).quiescent());
    EXPECT_GT(x.exchange(node).NextEvent(x.now()), x.now() - kTickNs);
    EXPECT_LE(x.exchange(node).NextEvent(x.now()), x.now() + 12 * kTickNs);  // a heartbeat
  }
  x.Add(1, 5, 1);
  EXPECT_FALSE(x.exchange(1).quiescent());
  EXPECT_LE(x.exchange(1).NextEvent(x.now()), x.now() + 3 * kTickNs);
  x.Run(8);
  for (size_t node : {0, 1, 2}) EXPECT_EQ(x[node].weights[5], 1);
}

TEST(Exchange, LosesNothingWhenItSleepsUntilItsNextEvent) {
  Cluster x({.nodes = 3});
  x.sleeps = true;
  int count = 0;
  x.delivers = [&](uint16_t, uint16_t, const FrameBytes&) { return ++count % 3 != 0; };
  for (int tick = 0; tick < 400; ++tick) {
    if (tick % 10 == 0) x.Add(tick / 10 % 3, tick / 10, 1);
    x.Tick();
  }
  x.Settle();
  for (size_t node : {0, 1, 2}) {
    for (int i = 0; i < 40; ++i) EXPECT_EQ(x[node].weights[i], 1);
  }
}

TEST(Exchange, IsNotQuiescentWhileAnythingIsUnderWay) {
  Cluster x({});
  const uint32_t chunk = x.ChunkOf(0);
  bool loses = true;
  x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
    return !loses || frame.decoded().header.type >= FrameType::kHeartbeat;
  };
  x.Add(1, chunk * 10, 1);
  for (int tick = 0; tick < 200; ++tick) {
    x.Tick();
    ASSERT_FALSE(x.exchange(1).quiescent());
  }
  loses = false;
  x.Settle();
  EXPECT_EQ(x[0].weights[chunk * 10], 1);
}

TEST(Exchange, CountsTheIterationsOfAllNodes) {
  Cluster x({.nodes = 3});
  for (int i = 0; i < 30; ++i) {
    x.Add(i % 2, i, 1);
    x.Run(i % 4);
  }
  x.Settle();
  for (size_t node : {0, 1, 2}) EXPECT_EQ(x.exchange(node).global_iterations(), 30u);
}

TEST(Exchange, SendsNoFrameLargerThanItSays) {
  Cluster x({.nodes = 3, .size = 95, .chunk_floats = 40});
  const size_t most = MaxFrameBytes(sim::ConfigOf({.nodes = 3}, 0), x[0].executor->arrays());
  x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
    EXPECT_LE(frame.view().size(), most);
    return true;
  };
  for (int i = 0; i < 95; ++i) x.Add(i % 3, i, 1);
  x.Settle();
}

}  // namespace
}  // namespace millrace
