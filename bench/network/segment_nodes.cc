#include "bench/network/segment_nodes.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "cluster/start.h"
#include "topology/plan.h"

namespace millrace::bench {
namespace {

constexpr double kTimeoutSeconds = 30;

void Nap() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

}  // namespace

SegmentNodes::SegmentNodes(const Topology& topology, int64_t weights)
    : topology_(topology), weights_(weights) {
  for (NodeId node = 0; node < topology_.nodes.size(); ++node) {
    Node& made = nodes_.emplace_back();
    const NodePlan plan = PlanFor(topology_, node);
    const ReplicaDevice replica_device = DeviceReplica(plan.memory.type, plan.memory.ordinal);
    made.weights =
        Buffer(replica_device.device->memory(), sizeof(float) * static_cast<size_t>(weights));
    replica_device.device->memory().Fill(made.weights.get(), 0, made.weights.bytes());
    made.iterations = std::make_unique<IterationClock>();
    made.cluster = StartCluster(topology_, plan,
                                {.weights = made.weights.get<float>(),
                                 .size = weights,
                                 .layout_digest = static_cast<uint64_t>(weights),
                                 .start = 0,
                                 .iterations = made.iterations.get(),
                                 .clock = &clock_,
                                 .sink = &errors_,
                                 .replica_device = replica_device});
    made.load = std::make_unique<millrace::LoadGenerator>(
        LoadStepOn(replica_device, made.weights.get<float>(), weights), made.iterations.get(),
        &errors_);
  }
  const int64_t most = nodes_[0].cluster->segments()[0].net->chunk_floats();
  const int64_t chunks = (weights_ + most - 1) / most;
  chunk_bytes_ = 4.0 * static_cast<double>(weights_) / static_cast<double>(chunks);
  for (const double start = clock_.NowSeconds(); !AreTogether(); Nap()) {
    errors_.RethrowIfFailed();
    if (clock_.NowSeconds() - start < kTimeoutSeconds) continue;
    throw Error("the nodes of ", topology_.name, " do not come together");
  }
}

bool SegmentNodes::AreTogether() {
  return std::all_of(nodes_.begin(), nodes_.end(), [&](Node& node) {
    return node.cluster->begun() && node.cluster->in_sync() &&
           node.cluster->members() == nodes_.size();
  });
}

void SegmentNodes::Load(bool on) {
  for (Node& node : nodes_) node.load->Switch(on);
}

SegmentCounts SegmentNodes::Read() const {
  SegmentCounts counts;
  for (const Node& node : nodes_) {
    const MetricsSnapshot reading = ReadCounters(*node.cluster);
    const EndReading& end = reading.ends.front();
    for (const auto& [peer, stats] : end.peers) {
      counts.position_bytes += chunk_bytes_ * static_cast<double>(stats.positions_taken);
      counts.merged_bytes +=
          chunk_bytes_ * static_cast<double>(stats.positions_taken + stats.diffs_merged);
      counts.resends += stats.resends;
    }
    for (const auto& [reason, frames] : end.drops) counts.drops[reason] += frames;
    counts.moved += reading.moved();
    counts.thread_cpu_seconds += 1e-9 * static_cast<double>(end.thread_cpu_ns);
    counts.load_cpu_seconds += 1e-9 * static_cast<double>(node.load->cpu_ns());
  }
  return counts;
}

void SegmentNodes::AwaitRest() {
  for (QuiescenceDetector watch; !watch.IsQuiescent(Read().moved, clock_.NowSeconds()); Nap()) {
    errors_.RethrowIfFailed();
  }
}

}  // namespace millrace::bench
