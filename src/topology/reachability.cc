#include "topology/reachability.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "topology/read_fields.h"

namespace millrace::inline topology {
namespace {

// Union-find over the nodes for one range of the weights. Segments are joined one by one.
class Forest {
 public:
  Forest(const Topology& topology, double begin, double end)
      : topology_(topology), begin_(begin), end_(end), parents_(topology.nodes.size()) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }

  void Join(size_t segment);
  void ExpectOneTree();

 private:
  NodeId Root(NodeId node) {
    while (parents_[node] != node) node = parents_[node] = parents_[parents_[node]];
    return node;
  }
  std::string Piece() const { return StrCat("weights ", begin_, " to ", end_, " of the array"); }
  const std::string& Name(NodeId node) const { return topology_.nodes[node].name; }
  std::vector<std::string> Path(NodeId from, NodeId to) const;

  const Topology& topology_;
  const double begin_, end_;
  std::vector<NodeId> parents_;
  std::vector<size_t> joined_;  // segments, in the order of the file
};

void Forest::Join(size_t segment) {
  const TopologySegment& joining = topology_.segments[segment];
  // Pairs of a tree's root and the segment's node in that tree.
  std::vector<std::pair<NodeId, NodeId>> roots;
  for (NodeId node : joining.nodes) roots.emplace_back(Root(node), node);
  std::sort(roots.begin(), roots.end());
  const auto twice = std::adjacent_find(
      roots.begin(), roots.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != roots.end()) {
    const NodeId from = twice->second, to = std::next(twice)->second;
    throw FieldError(StrCat("segment[", segment, "]"), "segment \"", joining.name,
                     "\" joins nodes \"", Name(from), "\" and \"", Name(to),
                     "\", which are joined already by ", NameList(Path(from, to)), " (", Piece(),
                     "); expected one way only, or weights are mastered twice");
  }
  for (const auto& [root, node] : roots) parents_[root] = roots[0].first;
  joined_.push_back(segment);
}

void Forest::ExpectOneTree() {
  if (joined_.empty() && parents_.size() > 1) {
    throw FieldError("segment", "none carries ", Piece(), ", expected all of 0 to 1");
  }
  for (size_t node = 1; node < parents_.size(); ++node) {
    if (Root(static_cast<NodeId>(node)) == Root(0)) continue;
    throw FieldError(StrCat("node[", node, "]"), "there is no path between two replicas, \"",
                     Name(0), "\" and \"", Name(static_cast<NodeId>(node)), "\", for ", Piece(),
                     "; expected segments that join all nodes");
  }
}

// Names of the segments on the path between two nodes of one tree.
std::vector<std::string> Forest::Path(NodeId from, NodeId to) const {
  // Breadth-first search from `to`. Each node records the segment and the node that reached it.
  struct Step {
    bool reached = false;
    size_t segment = 0;
    NodeId next = 0;
  };
  std::vector<Step> steps(parents_.size());
  std::vector<NodeId> queue = {to};
  std::vector<bool> passed(joined_.size());
  std::vector<std::vector<size_t>> touching(parents_.size());
  for (size_t i = 0; i < joined_.size(); ++i) {
    for (NodeId node : topology_.segments[joined_[i]].nodes) touching[node].push_back(i);
  }
  steps[to].reached = true;
  for (size_t at = 0; at < queue.size() && !steps[from].reached; ++at) {
    for (size_t i : touching[queue[at]]) {
      if (passed[i]) continue;
      passed[i] = true;
      for (NodeId node : topology_.segments[joined_[i]].nodes) {
        if (steps[node].reached) continue;
        steps[node] = {true, joined_[i], queue[at]};
        queue.push_back(node);
      }
    }
  }
  std::vector<std::string> names;
  for (NodeId node = from; node != to; node = steps[node].next) {
    names.push_back("segment \"" + topology_.segments[steps[node].segment].name + "\"");
  }
  return names;
}

}  // namespace

void CheckCoverage(const Topology& topology) {
  std::set<double> cuts = {0, 1};
  for (const TopologySegment& segment : topology.segments) {
    cuts.insert(segment.begin);
    cuts.insert(segment.end);
  }
  for (auto end = std::next(cuts.begin()); end != cuts.end(); ++end) {
    const double begin = *std::prev(end);
    Forest forest(topology, begin, *end);
    for (size_t i = 0; i < topology.segments.size(); ++i) {
      const TopologySegment& segment = topology.segments[i];
      if (segment.begin <= begin && segment.end >= *end) forest.Join(i);
    }
    forest.ExpectOneTree();
  }
}

}  // namespace millrace::inline topology
