// `millrace bench`: one node's part in measuring the segments of a cluster without
// training.
#ifndef MILLRACE_LINKTEST_MEASURE_CLUSTER_H_
#define MILLRACE_LINKTEST_MEASURE_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "proto/bench.pb.h"

namespace millrace {

struct MeasureOptions {
  std::string topology;        // the file
  std::string node;            // which of its nodes; "": the rank tells
  int64_t weights = 0;         // 1 at least; equal on all nodes
  double wait_seconds = 60;    // for the other nodes
  double warm_up_seconds = 1;  // of the node that leads, as the next one
  double seconds = 5;
};

// Waits for the other nodes, measures with them, and leaves. Returns the result on the
// node that leads (the lowest of those that came), none on the others. Never joins a
// training: its weights have a layout of their own. `stopped` waits so many milliseconds
// and says whether the user wants an end. Throws Error if nobody else came, the others
// refuse this node or measure without it, the node that leads has gone, or `stopped`.
std::optional<BenchResult> MeasureCluster(const MeasureOptions& options,
                                          const std::function<bool(int ms)>& stopped);

}  // namespace millrace

#endif  // MILLRACE_LINKTEST_MEASURE_CLUSTER_H_
