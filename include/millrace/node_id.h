// Node numbers, as used on the wire and between modules.
#ifndef MILLRACE_NODE_ID_H_
#define MILLRACE_NODE_ID_H_

#include <cstdint>

namespace millrace {

// Number of a node in its cluster, starting at 0.
using NodeId = uint16_t;
// Destination address: every node except the sender.
inline constexpr NodeId kAllNodes = 0xffff;

}  // namespace millrace

#endif  // MILLRACE_NODE_ID_H_
