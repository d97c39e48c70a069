// Snapshots of the counters of a node's segments, and the report made from four of them.
#ifndef MILLRACE_LINKTEST_READING_H_
#define MILLRACE_LINKTEST_READING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "exchange/protocol/peer_metrics.h"
#include "millrace/node_id.h"
#include "proto/bench.pb.h"
#include "topology/plan.h"

namespace millrace::inline linktest {

// Counters of one segment since its creation.
struct EndReading {
  uint64_t wire_bytes_out = 0, bytes_in = 0;
  uint64_t moved = 0;  // frames sent and received, without membership frames
  double sweeps = 0;
  int64_t thread_cpu_ns = 0;
  std::map<std::string, uint64_t> drops;  // frames by reason, as DropsOf names them
  std::map<NodeId, PeerStats> peers;
};

struct MetricsSnapshot {
  int64_t at_ns = 0;
  int64_t process_cpu_ns = 0, load_cpu_ns = 0;
  std::vector<EndReading> ends;  // in the order of the node's segments

  // Grows with every frame sent or received on any segment, except membership frames such as
  // heartbeats.
  uint64_t moved() const;
};

// Reads all counters. The caller sets at_ns and load_cpu_ns.
MetricsSnapshot ReadCounters(const Cluster& cluster);

// Constant properties of a segment.
struct EndFacts {
  uint32_t segment = 0;  // index in the topology
  uint32_t chunk_weights = 0;
  uint32_t link_megabits = 0;
};

// Snapshots in order of time: `before` the load, quiescent; at `begin` and `end` of the
// measurement; `after` it, quiescent again. `facts`: in the order of the node's segments.
BenchReport ReportOf(const std::vector<EndFacts>& facts, const MetricsSnapshot& before,
                     const MetricsSnapshot& begin, const MetricsSnapshot& end,
                     const MetricsSnapshot& after);

// Detects that no more frames move. Not thread-safe.
class QuiescenceDetector {
 public:
  // `moved`: current value of MetricsSnapshot::moved(). True if it has not changed for 1 s, which
  // exceeds nearly all retransmit timeouts. Also true after 10 s of changes, because slightly
  // inexact counters are better than a measurement that never ends.
  bool IsQuiescent(uint64_t moved, double now_seconds);

 private:
  uint64_t moved_ = 0;
  double changed_ = 0;       // last observed change
  double moving_since_ = 0;  // last time quiescent, or the first call
  bool started_ = false;
};

}  // namespace millrace::inline linktest

#endif  // MILLRACE_LINKTEST_READING_H_
