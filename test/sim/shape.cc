#include "test/sim/shape.h"

#include <algorithm>
#include <numeric>

namespace millrace::sim {

size_t Shape::max_members() const {
  size_t most = 0;
  for (const auto& segment : segments) most = std::max(most, segment.size());
  return most;
}

Shape FlatShape(uint16_t nodes) { return TreeShape(nodes, std::max<uint16_t>(nodes, 2)); }

Shape TreeShape(uint16_t nodes, uint16_t fan_out) {
  Shape shape{nodes, {}};
  std::vector<uint16_t> level(nodes);
  std::iota(level.begin(), level.end(), uint16_t{0});
  while (level.size() > 1) {
    std::vector<uint16_t> heads;
    std::vector<std::vector<uint16_t>> segments;
    for (size_t begin = 0; begin < level.size(); begin += fan_out) {
      const size_t end = std::min<size_t>(begin + fan_out, level.size());
      heads.push_back(level[begin]);
      if (end - begin < 2) continue;  // a single node is only in the segment above
      segments.emplace_back(level.begin() + static_cast<ptrdiff_t>(begin),
                            level.begin() + static_cast<ptrdiff_t>(end));
    }
    shape.segments.insert(shape.segments.begin(), segments.begin(), segments.end());
    level = heads;
  }
  return shape;
}

void SetBootstrap(const std::vector<uint16_t>& members, ExchangeConfig* config) {
  if (members[0] == 0) return;
  config->sole_bootstrapper = members[0] == config->node;
  if (!config->sole_bootstrapper) config->bootstrap_after_ns = -1;
}

}  // namespace millrace::sim
