#include "base/node_bits.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace millrace::inline base {

std::string BitsOfNodes(const std::vector<NodeId>& nodes) {
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

std::vector<NodeId> ReachableNodes(NodeId first, std::string left_out,
                                   const std::function<std::string(NodeId)>& neighbors) {
  std::vector<NodeId> nodes = {first};
  std::string seen = std::move(left_out);
  for (size_t next = 0; next < nodes.size(); ++next) {
    const std::string bits = neighbors(nodes[next]);
    seen.resize(std::max(seen.size(), bits.size()));
    for (size_t byte = 0; byte < bits.size(); ++byte) {
      for (auto fresh = static_cast<unsigned char>(bits[byte] & ~seen[byte]); fresh != 0;
           fresh &= fresh - 1) {
        const auto node = static_cast<NodeId>(8 * byte + std::countr_zero(fresh));
        if (node != first) nodes.push_back(node);
      }
      seen[byte] = static_cast<char>(seen[byte] | bits[byte]);
    }
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace millrace::inline base
