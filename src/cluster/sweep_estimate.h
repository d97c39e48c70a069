// How long a segment takes to exchange all of its weights once, by arithmetic: for a line at the
// start of a run, and to refuse a run that could not learn.
#ifndef MILLRACE_CLUSTER_SWEEP_ESTIMATE_H_
#define MILLRACE_CLUSTER_SWEEP_ESTIMATE_H_

#include <cstdint>
#include <string>

#include "exchange/protocol/damping.h"
#include "topology/plan.h"
#include "topology/topology.h"

namespace millrace {

// Up to so many iterations of the cluster between two exchanges progress is not damped.
inline constexpr double kFreshExchange = kFreshIterations;

// What a node of a segment can send.
struct LinkRate {
  double megabits = 0;  // per second; 0: not known
  std::string source;   // what says so, for messages
};

// The least of what is known of the segment at this node: `max_mbps`, what `millrace bench --json`
// has measured, if its output lies beside the topology file as FILE.bench.json, and what the
// driver of the interface says. Throws Error, one line with path, for a file there that is not one
// of this cluster.
LinkRate RateOf(const Topology& topology, const NodePlan& node, const SegmentPlan& segment);

struct SweepEstimate {
  double bytes_out = 0, bytes_in = 0;  // on the wire, at this node
  // At the rate given, both directions at once; 0 if it is not known.
  double seconds = 0;
};

// One exchange of each of `floats` weights: this node sends positions of its share to all peers,
// and a diff of every other chunk. A sparse diff counts as if a tenth of its elements were present.
SweepEstimate EstimateSweep(const SegmentPlan& segment, int64_t floats, double megabits);

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_SWEEP_ESTIMATE_H_
