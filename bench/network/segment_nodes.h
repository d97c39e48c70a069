// A segment between nodes of one process, each with weights, a segment thread and a load of
// its own, as `millrace bench` has them in a process for each.
#ifndef MILLRACE_BENCH_NETWORK_SEGMENT_NODES_H_
#define MILLRACE_BENCH_NETWORK_SEGMENT_NODES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/cluster.h"
#include "linktest/load_generator.h"
#include "linktest/reading.h"
#include "topology/topology.h"
#include "weights/iteration_clock.h"

namespace millrace::bench {

// What all nodes have counted together since they were started.
struct SegmentCounts {
  double merged_bytes = 0;    // weights of positions taken and diffs merged, 4 bytes each
  double position_bytes = 0;  // of these, the positions
  double thread_cpu_seconds = 0, load_cpu_seconds = 0;
  uint64_t moved = 0;  // frames
  uint64_t resends = 0;
  std::map<std::string, uint64_t> drops;  // frames by reason
};

// Not thread-safe.
class SegmentNodes {
 public:
  // All nodes of the topology, which has one segment; `weights` floats each, in the memory that
  // it says. Returns when all are in sync. Throws Error: they are not within half a minute, or
  // this machine lacks what the topology asks for.
  SegmentNodes(const Topology& topology, int64_t weights);

  // Whether solvers make progress, so to speak, on all nodes.
  void Load(bool on);
  SegmentCounts Read() const;
  // Waits until nothing moves any more.
  void AwaitRest();

 private:
  struct Node {
    Buffer weights;
    std::unique_ptr<IterationClock> iterations;
    std::unique_ptr<Cluster> cluster;
    std::unique_ptr<millrace::LoadGenerator> load;
  };
  bool AreTogether();

  SteadyClock clock_;
  ErrorSink errors_;
  const Topology topology_;
  const int64_t weights_;
  std::vector<Node> nodes_;
  double chunk_bytes_ = 0;  // on average
};

}  // namespace millrace::bench

#endif  // MILLRACE_BENCH_NETWORK_SEGMENT_NODES_H_
