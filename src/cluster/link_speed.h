// The speed of a segment's network interface as its driver reports it.
#ifndef MILLRACE_CLUSTER_LINK_SPEED_H_
#define MILLRACE_CLUSTER_LINK_SPEED_H_

#include <cstdint>

#include "topology/plan.h"

namespace millrace::inline cluster {

// Speed of the interface through which the plan's transport sends, in Mbit/s, as its driver reports
// it (ETHTOOL_GSET, which needs no privilege). A veth pair always reports 10,000. Returns 0 if the
// speed is unknown: loopback, most virtual machines, a link that is down, or an address that no
// interface has. Never throws.
uint32_t LinkMegabits(const SegmentPlan& plan);

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_LINK_SPEED_H_
