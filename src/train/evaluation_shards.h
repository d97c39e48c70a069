// How a test is divided over nodes, and put together again: pure logic.
//
// Each node takes its part by what it has heard of the others, so two may take the same
// batches, and some may be left over: whoever puts the parts together takes of them what
// fits, and evaluates the rest itself.
#ifndef MILLRACE_TRAIN_EVALUATION_SHARDS_H_
#define MILLRACE_TRAIN_EVALUATION_SHARDS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "base/node_id.h"
#include "cluster/cluster.h"
#include "proto/test_share.pb.h"
#include "train/evaluator.h"

namespace millrace {

// Batches [first, first + count) of a test.
struct BatchRange {
  int first = 0, count = 0;
  bool operator==(const BatchRange&) const = default;
};

// The part that falls to place `k` of `n`: parts do not overlap, cover [0, batches), and
// differ by one batch at most.
BatchRange ShareOf(size_t k, size_t n, int batches);

// By node, the newest that each has told; what is no TestShare is left out.
using EvaluationShards = std::map<NodeId, TestShare>;
EvaluationShards ReadShares(const std::vector<GossipMessage>& gossip);

// Who takes part in test `test`, ascending: `self`, and who has told of one of the two
// tests before it, or of this or a later one. Who is dead or slow drops out that way.
std::vector<NodeId> Participants(const EvaluationShards& shares, NodeId self, int64_t test);

// All of these have told of `test` or a later one.
bool AllDone(const EvaluationShards& shares, const std::vector<NodeId>& nodes, int64_t test);

// A test net's test as far as it can be put together.
struct Gathered {
  TestSums sums;
  std::vector<BatchRange> missing;  // ascending
};
// Of test `test` and net `net` of `batches` batches, each with `outputs` values.
Gathered Gather(const EvaluationShards& shares, int64_t test, int net, int batches, size_t outputs);

}  // namespace millrace

#endif  // MILLRACE_TRAIN_EVALUATION_SHARDS_H_
