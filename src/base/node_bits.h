// Sets of nodes as bytes, for messages: node n is bit n % 8 of byte n / 8, and the last byte
// is the one of the largest node.
#ifndef MILLRACE_BASE_NODE_BITS_H_
#define MILLRACE_BASE_NODE_BITS_H_

#include <string>
#include <vector>

#include "base/node_id.h"

namespace millrace {

std::string BitsOf(const std::vector<NodeId>& nodes);
// Ascending.
std::vector<NodeId> NodesOf(const std::string& bits);

}  // namespace millrace

#endif  // MILLRACE_BASE_NODE_BITS_H_
