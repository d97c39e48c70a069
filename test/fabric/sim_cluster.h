// Many nodes, each with its real exchanges (one for each of its segments, on one weight
// array), over a simulated fabric; what passes their ports, and how often their replicas
// are refreshed.
//
// Frames, membership, ownership, acknowledgements, windows and credits are the program's.
// What is simulated is the fabric, the time, and solvers that have new progress in every
// chunk whenever the exchange looks (busy_executor.h): the most traffic that there can be.
// A chunk holds kFloats weights in memory, and counts as `chunk_floats` on the fabric.
#ifndef MILLRACE_TEST_FABRIC_SIM_CLUSTER_H_
#define MILLRACE_TEST_FABRIC_SIM_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "exchange/protocol/exchange.h"
#include "test/fabric/bound.h"
#include "test/fabric/shape.h"
#include "test/fabric/sim_port.h"

namespace millrace::fabric {

struct SimClusterOptions {
  Shape shape;
  SimPortOptions carrier;  // chunk_floats 0: as many as a frame holds
  int64_t chunks = 2048;   // of the weights; all segments carry all of them
  Codec codec = Codec::kFloat32;
  int64_t pass_ns = 10'000;  // how often a node looks at what has come
  uint32_t slots = 128;
};

// What travels between such nodes, for the bounds of bound.h.
Partition CutOf(const SimClusterOptions& options);

// Of a stretch of time; per second, or counts.
struct Reading {
  double seconds = 0;
  // Of a node's port, the mean over nodes and the largest.
  double sent_bytes = 0, received_bytes = 0, most_sent_bytes = 0, most_received_bytes = 0;
  // Sweeps of an end of a segment: how often all chunks that others master were taken. The
  // mean over the ends, and the mean over those of the slowest segment.
  double sweeps = 0, least_sweeps = 0;
  // As sweeps, and of the same ends: how often each chunk's diff was merged.
  double merges = 0;
  uint64_t positions_sent = 0, positions_taken = 0, diffs_merged = 0, resends = 0;
  int64_t position_bytes = 0;       // that positions took on the ports of their masters
  int64_t deepest_queue_bytes = 0;  // since the beginning
};

// How long a node's progress takes to get everywhere.
struct Spread {
  double mean_ns = 0;  // until a replica has it, over marks and replicas
  double last_ns = 0;  // until the last replica has it, over marks
};

// Not thread-safe; a function of its options.
class SimCluster {
 public:
  // Floats of a chunk in memory: one for tokens, one for marks.
  static constexpr int64_t kFloats = 4;

  explicit SimCluster(const SimClusterOptions& options);

  // Until all are in sync; solvers rest meanwhile. Throws Error if that takes longer than
  // `within_ns` of simulated time.
  void Join(int64_t within_ns);
  // From now on solvers work, or rest.
  void Work(bool busy);
  void Run(int64_t ns);
  Reading Measure(int64_t ns);
  // While solvers work, adds something to `marks` chunks (different ones, on nodes drawn
  // from the seed) and waits until all have it. Throws Error if that takes too long.
  Spread MeasureSpread(int marks, uint64_t seed, int64_t within_ns);
  // Until nothing is left to do; Work(false) first. False if that takes too long.
  bool Settle(int64_t within_ns);
  // Then: all replicas are equal, and hold each token once.
  bool Conserved() const;

  int64_t now() const { return now_; }
  int64_t chunk_floats() const { return chunk_floats_; }
  const Exchange& exchange(size_t end) const { return *ends_[end].exchange; }
  const SimPort& carrier() const { return port_; }
  Partition cut() const { return CutOf(options_); }

 private:
  struct Node {
    std::vector<float> weights;
    std::vector<std::unique_ptr<float[]>> memory;  // base and pending, by segment
    uint64_t iterations = 0, made = 0;
    int64_t due = 0;
  };
  struct End {
    std::unique_ptr<ChunkExecutor> executor;
    std::unique_ptr<Exchange> exchange;
    std::vector<PostedFrame> held;  // that met a full window
    uint64_t merges = 0;            // as last told to the node's others
  };
  // Counters of all ends and ports at a moment.
  struct Totals;

  void Start(size_t end);
  void Step();
  void Pass(uint16_t node);
  void Receive(uint16_t node);
  void PassOnMerges(uint16_t node);
  bool Send(uint16_t node, size_t end);
  void Offer(size_t end);
  bool InSync() const;
  bool Quiescent() const;
  Totals Read() const;

  const SimClusterOptions options_;
  const int64_t chunk_floats_;
  const int64_t most_backlog_ns_;
  SimPort port_;
  std::vector<Node> nodes_;
  std::vector<End> ends_;
  std::vector<SimPort::Arrived> arrived_;
  std::vector<std::span<const std::byte>> frames_;
  std::vector<PostedFrame> room_;
  std::vector<uint16_t> full_;  // destinations without room, of one Offer
  bool busy_ = false;
  int64_t now_ = 0;
};

}  // namespace millrace::fabric

#endif  // MILLRACE_TEST_FABRIC_SIM_CLUSTER_H_
