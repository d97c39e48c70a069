// Segment layouts of simulated clusters. Plain values.
#ifndef MILLRACE_TEST_SIM_SHAPE_H_
#define MILLRACE_TEST_SIM_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exchange/protocol/exchange_config.h"

namespace millrace::sim {

struct Shape {
  uint16_t nodes = 0;
  // The node ids of each segment, ascending. The first id is nearest to node 0; a node outside
  // the first segment gets its weights through it. The segments join all nodes as a tree, as
  // those of a topology file must.
  std::vector<std::vector<uint16_t>> segments;

  // Number of nodes in the largest segment.
  size_t max_members() const;
};

// One segment with all nodes.
Shape FlatShape(uint16_t nodes);
// Segments of at most `fan_out` (at least 2) nodes. Groups nodes with consecutive ids, then the
// first nodes of these groups, and so on until one segment is left; that one comes first. Up to
// `fan_out` nodes give one segment; up to `fan_out` squared, two levels.
Shape TreeShape(uint16_t nodes, uint16_t fan_out);

// Sets who bootstraps a segment of `members`: in one without node 0, only the first node.
void SetBootstrap(const std::vector<uint16_t>& members, ExchangeConfig* config);

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_SHAPE_H_
