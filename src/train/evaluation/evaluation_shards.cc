#include "train/evaluation/evaluation_shards.h"

#include <algorithm>

#include "cluster/read_gossip.h"

namespace millrace::inline train {

BatchRange ShareOf(size_t k, size_t n, int batches) {
  const auto edge = [&](size_t i) {
    return static_cast<int>(static_cast<uint64_t>(batches) * i / n);
  };
  return {edge(k), edge(k + 1) - edge(k)};
}

EvaluationShards ReadShares(const std::vector<GossipMessage>& gossip) {
  return ReadGossip<TestShare>(gossip);
}

std::vector<NodeId> Participants(const EvaluationShards& shares, NodeId self, int64_t test) {
  std::vector<NodeId> nodes = {self};
  for (const auto& [node, share] : shares) {
    if (node != self && share.test() >= test - 2) nodes.push_back(node);
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

bool AllDone(const EvaluationShards& shares, const std::vector<NodeId>& nodes, int64_t test) {
  return std::all_of(nodes.begin(), nodes.end(), [&](NodeId node) {
    const auto found = shares.find(node);
    return found != shares.end() && found->second.test() >= test;
  });
}

Gathered Gather(const EvaluationShards& shares, int64_t test, int net, int batches,
                size_t outputs) {
  std::vector<const TestNetSums*> parts;
  for (const auto& [node, share] : shares) {
    if (share.test() != test || net >= share.net_size()) continue;
    const TestNetSums& part = share.net(net);
    const bool fits = part.first() >= 0 && part.batches() > 0 &&
                      part.first() <= batches - part.batches() && part.batches() <= batches &&
                      static_cast<size_t>(part.output_size()) == outputs;
    if (fits) parts.push_back(&part);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](auto* a, auto* b) { return a->first() < b->first(); });
  Gathered gathered;
  gathered.sums.outputs.resize(outputs);
  int end = 0;  // batches below it are combined or missing
  for (const TestNetSums* part : parts) {
    if (part->first() < end) continue;
    if (part->first() > end) gathered.missing.push_back({end, part->first() - end});
    TestSums sums;
    sums.outputs.assign(part->output().begin(), part->output().end());
    sums.loss = part->loss();
    sums.batches = part->batches();
    gathered.sums.Add(sums);
    end = part->first() + part->batches();
  }
  if (end < batches) gathered.missing.push_back({end, batches - end});
  return gathered;
}

}  // namespace millrace::inline train
