// Solvers on weights of their own in a cluster: how stale the exchanges take their progress to be.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "cluster/cluster.h"
#include "segment/replica_device.h"
#include "test/support/cluster_node.h"
#include "test/support/eventually.h"
#include "transport/loopback/transport.h"
#include "weights/weight_buffer.h"

namespace millrace::test {
namespace {

constexpr int64_t kWeights = 128, kChunk = 16;

struct ClusteredWeights {
  ClusteredWeights(LoopbackHub* hub, uint16_t node) {
    ParamLayout layout;
    layout.Add("w/0", {kWeights});
    weights = WeightBuffer::CreatePrivate(layout);
    NetSegmentConfig config = EndConfig(node, 2, NewIncarnation());
    config.chunk_floats = kChunk;
    config.exchange.damping = true;
    config.exchange.bootstrap_after_ns = node == 0 ? 50'000'000 : -1;
    config.exchange.peer_timeout_ns = 3600'000'000'000;
    std::vector<ClusterSegment> segments;
    segments.push_back(
        {std::make_unique<NetSegment>(config, hub->Connect(node), weights->data(), weights->size(),
                                      HostReplica(&weights->locks())),
         {}});
    cluster = std::make_unique<Cluster>(std::move(segments), 0, &weights->clock(), &time, &sink);
  }
  SegmentState& state() { return cluster->segments()[0].net->state(); }

  SteadyClock time;
  ErrorSink sink;
  std::unique_ptr<WeightBuffer> weights;
  std::unique_ptr<Cluster> cluster;
};

// The other node receives each iteration before the next one, so that exchanges are fresh, but the
// progress of all 50 at once.
TEST(UnmergedProgress, IsAsStaleInAClusterAsTheSolversPeriodIsLong) {
  constexpr int kPeriod = 50;
  LoopbackHub hub(LoopbackOptions{.nodes = 2});
  ClusteredWeights a(&hub, 0), b(&hub, 1);
  ASSERT_TRUE(Eventually([&] {
    return a.cluster->begun() && b.cluster->begun() && a.cluster->members() == 2 &&
           a.cluster->in_sync() && b.cluster->in_sync();
  }));
  IterationClock& clock = b.weights->clock();
  const int slot = clock.RegisterSolver();
  for (const float progress : {0.0f, 100.0f}) {
    for (int i = 1; i <= kPeriod; ++i) {
      clock.SetUnmerged(slot, i);
      clock.Done(slot);
      const auto made = static_cast<uint64_t>(clock.own());
      ASSERT_TRUE(Eventually([&] { return a.state().global_iterations() >= made; }));
    }
    RangeLock::Shared holder(&b.weights->locks());
    holder.Lock(b.weights->data(), kWeights);
    for (int64_t i = 0; i < kWeights; ++i) b.weights->data()[i] += progress;
    holder.Unlock();
    clock.SetUnmerged(slot, 0);
  }
  // Chunks that b masters reach a in full, the others in part.
  const float* const weights = a.weights->data();
  ASSERT_TRUE(Eventually(
      [&] { return std::all_of(weights, weights + kWeights, [](float w) { return w > 0; }); }));
  const auto damped = std::count_if(weights, weights + kWeights, [](float w) { return w < 50; });
  EXPECT_GE(damped, kChunk);
  EXPECT_EQ(damped % kChunk, 0);
  clock.ReleaseSolver(slot);
}

}  // namespace
}  // namespace millrace::test
