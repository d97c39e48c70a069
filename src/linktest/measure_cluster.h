// `millrace bench`: one node's part in measuring a cluster's segments without training.
#ifndef MILLRACE_LINKTEST_MEASURE_CLUSTER_H_
#define MILLRACE_LINKTEST_MEASURE_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "proto/bench.pb.h"

namespace millrace::inline linktest {

struct MeasureOptions {
  std::string topology;        // path of the topology file
  std::string node;            // name of this node; "": chosen by rank
  int64_t weights = 0;         // at least 1; equal on all nodes
  double wait_seconds = 60;    // maximum wait for the other nodes
  double warm_up_seconds = 1;  // the leader's value counts, as for `seconds`
  double seconds = 5;
};

// Waits for the other nodes, measures with them, and leaves. Returns the result on the leader (the
// lowest node that came), none on the others. A training cluster refuses this node, because the
// layout of its weights differs. `stopped` waits `ms` milliseconds and returns whether the user
// wants to stop. Throws Error if no other node came, the others refuse this node or measure without
// it, the leader has gone, or `stopped` returned true.
std::optional<BenchResult> MeasureCluster(const MeasureOptions& options,
                                          const std::function<bool(int ms)>& stopped);

}  // namespace millrace::inline linktest

#endif  // MILLRACE_LINKTEST_MEASURE_CLUSTER_H_
