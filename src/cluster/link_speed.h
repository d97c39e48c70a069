// How fast the network interface of a segment says that it is.
#ifndef MILLRACE_CLUSTER_LINK_SPEED_H_
#define MILLRACE_CLUSTER_LINK_SPEED_H_

#include <cstdint>

#include "topology/plan.h"

namespace millrace {

// Megabits a second, as the driver of the interface that the plan's transport sends
// through has it (ETHTOOL_GSET, which needs no privilege); a veth pair says 10,000
// whatever it does. 0 where nothing is said: loopback, most virtual machines, a link that
// is down, an address that no interface has. Never throws.
uint32_t LinkMegabits(const SegmentPlan& plan);

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_LINK_SPEED_H_
