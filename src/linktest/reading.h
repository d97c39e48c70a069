// The counters of a node's segments at one moment, and the report that three such
// readings make.
#ifndef MILLRACE_LINKTEST_READING_H_
#define MILLRACE_LINKTEST_READING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/node_id.h"
#include "cluster/cluster.h"
#include "exchange/protocol/peer_metrics.h"
#include "proto/bench.pb.h"
#include "topology/plan.h"

namespace millrace {

// Of one segment; all counted since it was made.
struct EndReading {
  uint64_t wire_bytes_out = 0, bytes_in = 0;
  uint64_t moved = 0;  // frames of the exchange, but for those of membership
  double sweeps = 0;
  int64_t thread_cpu_ns = 0;
  std::map<std::string, uint64_t> drops;  // frames by reason, of exchange, gate and transport
  std::map<NodeId, PeerStats> peers;
};

struct MetricsSnapshot {
  int64_t at_ns = 0;
  int64_t process_cpu_ns = 0, load_cpu_ns = 0;
  std::vector<EndReading> ends;  // in the order of the node's segments

  // Grows whenever something moves on any segment; not while there are but heartbeats.
  uint64_t moved() const;
};

// Reads all counters; but for at_ns and load_cpu_ns, which are the caller's.
MetricsSnapshot ReadCounters(const Cluster& cluster);

// What does not change while a segment runs.
struct EndFacts {
  uint32_t segment = 0;  // its place in the topology
  uint32_t chunk_weights = 0;
  uint32_t link_megabits = 0;
};

// The readings, in the order of time: at rest before there was load; when measuring began
// and ended; at rest again. `facts` in the order of the node's segments.
BenchReport ReportOf(const std::vector<EndFacts>& facts, const MetricsSnapshot& before,
                     const MetricsSnapshot& begin, const MetricsSnapshot& end,
                     const MetricsSnapshot& after);

// Tells when nothing moves any more. Not thread-safe.
class QuiescenceDetector {
 public:
  // `moved` as of now. True if it has not changed for 1 s, which is longer than nearly all
  // that was lost waits to be sent again; also after 10 s of change,
  // because counters that are a little off are better than no end.
  bool Rests(uint64_t moved, double now_seconds);

 private:
  uint64_t moved_ = 0;
  double changed_ = 0;       // when it was seen to change last
  double moving_since_ = 0;  // when it had rested last
  bool started_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_LINKTEST_READING_H_
