// The rule between segments: every weight reaches every node, and by one way only.
#ifndef MILLRACE_TOPOLOGY_REACHABILITY_H_
#define MILLRACE_TOPOLOGY_REACHABILITY_H_

#include "topology/topology.h"

namespace millrace {

// For every piece of the weights, the segments that carry it have to join all nodes as a
// tree: without a path, two replicas drift apart; with two, what a node has added comes
// back to it as if another had, and is added again and again. Throws FieldError, its
// field a path from the file's root.
void CheckCoverage(const Topology& topology);

}  // namespace millrace

#endif  // MILLRACE_TOPOLOGY_REACHABILITY_H_
