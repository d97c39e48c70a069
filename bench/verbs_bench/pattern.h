// Who sends what to whom in these benchmarks.
#ifndef MILLRACE_BENCH_VERBS_BENCH_PATTERN_H_
#define MILLRACE_BENCH_VERBS_BENCH_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "millrace/node_id.h"

namespace millrace::bench {

// Destinations of a node's datagrams, in turn; kAllNodes is a multicast.
using Pattern = std::vector<NodeId>;

// "each": to each other node; "all": to all of them at once; "mix": one to all, then one to
// each, as a segment does (positions to all, diffs to their masters). Throws Error.
inline Pattern PatternOf(const std::string& name, int node, int nodes) {
  Pattern pattern;
  if (name != "each") pattern.push_back(kAllNodes);
  for (int other = 0; other < nodes && name != "all"; ++other) {
    if (other != node) pattern.push_back(static_cast<NodeId>(other));
  }
  if (name == "each" || name == "all" || name == "mix") return pattern;
  throw Error("--pattern=", name, ": expected each, all or mix");
}

// Where test/rdma_vm/fabric puts a node.
inline std::string AddressOf(int node, int port) { return StrCat("10.98.0.", node + 1, ":", port); }

}  // namespace millrace::bench

#endif  // MILLRACE_BENCH_VERBS_BENCH_PATTERN_H_
