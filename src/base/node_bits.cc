#include "base/node_bits.h"

#include <algorithm>

namespace millrace::inline base {

std::string BitsOf(const std::vector<NodeId>& nodes) {
  std::string bits;
  for (const NodeId node : nodes) {
    bits.resize(std::max<size_t>(bits.size(), node / 8 + 1));
    bits[node / 8] = static_cast<char>(bits[node / 8] | 1 << node % 8);
  }
  return bits;
}

std::vector<NodeId> NodesOf(const std::string& bits) {
  std::vector<NodeId> nodes;
  for (size_t i = 0; i < 8 * bits.size(); ++i) {
    if (bits[i / 8] >> i % 8 & 1) nodes.push_back(static_cast<NodeId>(i));
  }
  return nodes;
}

}  // namespace millrace::inline base
