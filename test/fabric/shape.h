// Which nodes the segments of a cluster join. Plain values.
#ifndef MILLRACE_TEST_FABRIC_SHAPE_H_
#define MILLRACE_TEST_FABRIC_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::fabric {

struct Shape {
  uint16_t nodes = 0;
  // Of each segment its nodes, ascending; the first one is nearest to node 0, and a node that
  // is not in the first segment gets its weights through it. They join all nodes as a tree,
  // as a topology file's have to.
  std::vector<std::vector<uint16_t>> segments;

  // Of a segment.
  size_t most_members() const;
};

// One segment with all of them.
Shape Flat(uint16_t nodes);
// Segments of at most `fan_out` (2 at least) nodes: neighbours by number first, then the
// first ones of these, and so on until one segment is left, which comes first. Up to
// `fan_out` nodes it is flat; up to its square, two levels.
Shape Tree(uint16_t nodes, uint16_t fan_out);

}  // namespace millrace::fabric

#endif  // MILLRACE_TEST_FABRIC_SHAPE_H_
