// Sets of nodes as bitmaps for messages. Node n is bit n % 8 of byte n / 8. The last byte holds the
// largest node: there are no trailing zero bytes.
#ifndef MILLRACE_BASE_NODE_BITS_H_
#define MILLRACE_BASE_NODE_BITS_H_

#include <string>
#include <vector>

#include "millrace/node_id.h"

namespace millrace::inline base {

std::string BitsOf(const std::vector<NodeId>& nodes);
// In ascending order.
std::vector<NodeId> NodesOf(const std::string& bits);

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_NODE_BITS_H_
