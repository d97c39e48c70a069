#include "test/fabric/shape.h"

#include <algorithm>
#include <numeric>

namespace millrace::fabric {

size_t Shape::most_members() const {
  size_t most = 0;
  for (const auto& segment : segments) most = std::max(most, segment.size());
  return most;
}

Shape Flat(uint16_t nodes) { return Tree(nodes, std::max<uint16_t>(nodes, 2)); }

Shape Tree(uint16_t nodes, uint16_t fan_out) {
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

}  // namespace millrace::fabric
