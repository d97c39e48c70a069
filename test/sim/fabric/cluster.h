// Many nodes over a simulated fabric. Each node runs real exchanges, one per segment, on one
// weight array. Measures the traffic at the ports and the rate at which replicas are refreshed.
//
// Frames, membership, ownership, acknowledgements, windows and credits are production code. The
// fabric, the time and the solvers are simulated. Solvers have new progress in every chunk
// whenever the exchange examines it, which gives the maximum possible traffic. A chunk holds
// kFloats weights in memory and counts as `chunk_floats` on the fabric.
#ifndef MILLRACE_TEST_SIM_FABRIC_CLUSTER_H_
#define MILLRACE_TEST_SIM_FABRIC_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "test/sim/exchange_node.h"
#include "test/sim/fabric/bound.h"
#include "test/sim/fabric/port.h"
#include "test/sim/shape.h"

namespace millrace::sim {

struct FabricClusterOptions {
  Shape shape;
  FabricPortOptions port;  // chunk_floats 0: as many as fit a frame
  int64_t chunks = 2048;   // of the weights; every segment carries all of them
  Codec codec = Codec::kFloat32;
  int64_t pass_ns = 10'000;  // interval between a node's passes
  uint32_t slots = 128;
};

// The partition of such a cluster, for the bounds in bound.h.
Partition CutOf(const FabricClusterOptions& options);

// Measurements of an interval: rates per second, or counts.
struct Reading {
  double seconds = 0;
  // At a node's port: mean over the nodes, and maximum.
  double sent_bytes = 0, received_bytes = 0, max_sent_bytes = 0, max_received_bytes = 0;
  // Sweeps per second of one end of a segment: positions taken, divided by the number of chunks
  // with other masters. Mean over all ends, and mean over the ends of the slowest segment.
  double sweeps = 0, min_sweeps = 0;
  // Merges of each chunk's diff per second and worker, averaged as `sweeps`.
  double merges = 0;
  uint64_t positions_sent = 0, positions_taken = 0, diffs_merged = 0, resends = 0;
  int64_t position_bytes = 0;       // bytes of positions at the ports of their masters
  int64_t deepest_queue_bytes = 0;  // maximum since construction
};

// Time in which a node's progress reaches the other replicas.
struct Spread {
  double mean_ns = 0;  // until a replica has it: mean over marks and replicas
  double last_ns = 0;  // until the last replica has it: mean over marks
};

// Not thread-safe. Deterministic: results depend only on the options and the calls.
class FabricCluster {
 public:
  // Floats of a chunk in memory: the first holds tokens, the second marks.
  static constexpr int64_t kFloats = 4;

  explicit FabricCluster(const FabricClusterOptions& options);

  // Runs with idle solvers until all nodes are in sync. Throws Error after `within_ns` of
  // simulated time.
  void Join(int64_t within_ns);
  // Starts or stops the solvers' progress.
  void Work(bool busy);
  void Run(int64_t ns);
  Reading Measure(int64_t ns);
  // Adds a mark to each of `marks` different chunks, on nodes drawn from the seed, and waits
  // until all nodes have them. Call while solvers work. Throws Error after `within_ns` of
  // simulated time.
  Spread MeasureSpread(int marks, uint64_t seed, int64_t within_ns);
  // Runs until no work is left; call Work(false) first. Returns false after `within_ns`.
  bool Settle(int64_t within_ns);
  // After Settle: returns true if all replicas are equal and hold each token exactly once.
  bool Conserved() const;

  int64_t now() const { return now_; }
  int64_t chunk_floats() const { return chunk_floats_; }
  const Exchange& exchange(size_t end) const { return *ends_[end].exchange; }
  const FabricPort& port() const { return port_; }
  Partition cut() const { return CutOf(options_); }

 private:
  struct Node {
    std::vector<float> weights;
    uint64_t iterations = 0, made = 0;
    int64_t due = 0;
  };
  struct End : ExchangeEnd {
    std::vector<PostedFrame> held;  // frames refused because of a full window or device queue
    uint64_t merges = 0;            // count last reported to the node's other ends
  };
  // Counters of all ends and ports at one time.
  struct Totals;

  void Start(size_t end);
  void Step();
  void Pass(uint16_t node);
  void Receive(uint16_t node);
  void ForwardMerges(uint16_t node);
  bool Send(uint16_t node, size_t end);
  void Offer(size_t end);
  bool InSync() const;
  bool Quiescent() const;
  Totals Read() const;

  const FabricClusterOptions options_;
  const int64_t chunk_floats_;
  const int64_t max_backlog_ns_;
  FabricPort port_;
  std::vector<Node> nodes_;
  std::vector<End> ends_;
  std::vector<FabricPort::Arrived> arrived_;
  std::vector<std::span<const std::byte>> frames_;
  std::vector<PostedFrame> room_;
  std::vector<uint16_t> full_;  // destinations without room, within one Offer
  bool busy_ = false;
  int64_t now_ = 0;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_FABRIC_CLUSTER_H_
