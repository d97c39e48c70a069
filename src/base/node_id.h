// How nodes of a run are named on the wire and between the parts of the program.
#ifndef MILLRACE_BASE_NODE_ID_H_
#define MILLRACE_BASE_NODE_ID_H_

#include <cstdint>

namespace millrace {

// The number of a node in its cluster, from 0.
using NodeId = uint16_t;
// As a destination: every node but the sender.
inline constexpr NodeId kAllNodes = 0xffff;

}  // namespace millrace

#endif  // MILLRACE_BASE_NODE_ID_H_
