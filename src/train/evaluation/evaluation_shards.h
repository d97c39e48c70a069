// Divides a test over nodes and combines their results. Pure logic.
//
// Each node chooses its part from what it knows of the others. Parts may therefore overlap or leave
// gaps. The node that combines them takes parts that do not overlap, and evaluates the missing
// batches itself.
#ifndef MILLRACE_TRAIN_EVALUATION_EVALUATION_SHARDS_H_
#define MILLRACE_TRAIN_EVALUATION_EVALUATION_SHARDS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "cluster/cluster.h"
#include "millrace/node_id.h"
#include "proto/gossip.pb.h"
#include "train/evaluation/evaluator.h"

namespace millrace::inline train {

// Batches [first, first + count) of a test.
struct BatchRange {
  int first = 0, count = 0;
  bool operator==(const BatchRange&) const = default;
};

// The part of node `k` of `n` nodes. Parts are disjoint, cover [0, batches), and differ by at most
// one batch.
BatchRange ShareOf(size_t k, size_t n, int batches);

// The newest message of each node. Messages that are not a TestShare are left out.
using EvaluationShards = std::map<NodeId, TestShare>;
EvaluationShards ReadShares(const std::vector<GossipMessage>& gossip);

// Participants of test `test`, ascending: `self`, and each node whose newest message is of one of
// the two tests before it or later. Dead and slow nodes drop out that way.
std::vector<NodeId> Participants(const EvaluationShards& shares, NodeId self, int64_t test);

// Whether all `nodes` have published `test` or a later test.
bool AllDone(const EvaluationShards& shares, const std::vector<NodeId>& nodes, int64_t test);

// The combined results of one test net.
struct Gathered {
  TestSums sums;
  std::vector<BatchRange> missing;  // ascending
};
// Combines the parts of test `test` for net `net`, which has `batches` batches with `outputs`
// values each.
Gathered Gather(const EvaluationShards& shares, int64_t test, int net, int batches, size_t outputs);

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_EVALUATION_EVALUATION_SHARDS_H_
