// Checks that every weight reaches every node by exactly one route.
#ifndef MILLRACE_TOPOLOGY_REACHABILITY_H_
#define MILLRACE_TOPOLOGY_REACHABILITY_H_

#include "topology/topology.h"

namespace millrace::inline topology {

// For every range of the weights, the segments that carry it must join all nodes as a tree. Without
// a path, two replicas drift apart. With two paths, a node's progress returns to it as if it came
// from another node, and is added repeatedly. Throws FieldError with a path from the file's root.
void CheckCoverage(const Topology& topology);

}  // namespace millrace::inline topology

#endif  // MILLRACE_TOPOLOGY_REACHABILITY_H_
