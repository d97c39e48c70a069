// Sets of nodes as bitmaps for messages. Node n is bit n % 8 of byte n / 8. The last byte holds the
// largest node: there are no trailing zero bytes.
#ifndef MILLRACE_BASE_NODE_BITS_H_
#define MILLRACE_BASE_NODE_BITS_H_

#include <functional>
#include <string>
#include <vector>

#include "millrace/node_id.h"

namespace millrace::inline base {

std::string BitsOfNodes(const std::vector<NodeId>& nodes);
// In ascending order.
std::vector<NodeId> NodesOf(const std::string& bits);

// The nodes that `first` reaches in any number of steps, itself included, in ascending order.
// `neighbors` returns the bitmap of the nodes that a node reaches in one step. The nodes of bitmap
// `left_out` are not visited.
std::vector<NodeId> ReachableNodes(NodeId first, std::string left_out,
                                   const std::function<std::string(NodeId)>& neighbors);

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_NODE_BITS_H_
