// Computes how long a segment takes to exchange all of its weights once. The result is logged at
// the start of a run, and serves to refuse a run whose nodes could not learn from each other.
#ifndef MILLRACE_CLUSTER_SWEEP_ESTIMATE_H_
#define MILLRACE_CLUSTER_SWEEP_ESTIMATE_H_

#include <cstdint>
#include <string>

#include "topology/plan.h"
#include "topology/topology.h"

namespace millrace::inline cluster {

// Send rate of a node on a segment.
struct LinkRate {
  double megabits = 0;  // Mbit/s; 0: unknown
  std::string source;   // origin of the rate, for messages
};

// The minimum of the known rates of the segment at this node: `max_mbps`; the rate that `millrace
// bench --json` measured, if its output is at FILE.bench.json beside the topology file FILE; and
// the speed that the interface's driver reports. Throws Error with one line that starts with the
// path if that file does not belong to this cluster.
LinkRate RateOf(const Topology& topology, const NodePlan& node, const SegmentPlan& segment);

struct SweepEstimate {
  double bytes_out = 0, bytes_in = 0;  // on the wire, at this node
  // At the given rate, both directions at once; 0 if the rate is unknown.
  double seconds = 0;
};

// Estimates one exchange of each of `floats` weights. This node sends positions of the chunks that
// it masters to all peers, by multicast if the transport has it, and one diff of every other chunk.
// A sparse diff counts as 10 % full.
SweepEstimate EstimateSweep(const SegmentPlan& segment, int64_t floats, double megabits);

// Speed of the interface through which the plan's transport sends, in Mbit/s, as its driver reports
// it (ETHTOOL_GSET, which needs no privilege). A veth pair always reports 10,000. Returns 0 if the
// speed is unknown: loopback, most virtual machines, a link that is down, or an address that no
// interface has. Never throws.
uint32_t LinkMegabits(const SegmentPlan& plan);

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_SWEEP_ESTIMATE_H_
