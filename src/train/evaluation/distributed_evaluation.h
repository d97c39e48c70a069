// Distributed evaluation: each node of a cluster evaluates a part of a test's batches, on the
// merged weights at the start of its part. The leader combines and logs the results.
//
// No node waits for another. A node publishes its part and trains on; at each of its iterations the
// leader checks whether all parts have arrived. After a timeout the leader evaluates missing parts
// itself (their node has died or is slow), so that every result includes all batches.
//
// The last test of a run uses weights that no longer change. It counts only parts evaluated on
// exactly the leader's weights, and the leader publishes the combined results.
#ifndef MILLRACE_TRAIN_EVALUATION_DISTRIBUTED_EVALUATION_H_
#define MILLRACE_TRAIN_EVALUATION_DISTRIBUTED_EVALUATION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "cluster/cluster.h"
#include "train/evaluation/evaluation_shards.h"
#include "train/evaluation/tester.h"

namespace millrace::inline train {

// The parts of a cluster that DistributedEvaluation uses. Tests replace them.
struct TestPeers {
  NodeId self = 0;
  std::function<void(std::span<const std::byte>)> publish;
  std::function<std::vector<GossipMessage>()> read;  // of all nodes, including this one
  std::function<bool()> is_leader;                   // the leader logs the results
  std::function<bool()> alone;                       // no other member is left
};
TestPeers TestPeersOf(Cluster* cluster);

// Thread-safe.
class DistributedEvaluation {
 public:
  // Timeout for missing parts: this, plus three times the duration of this node's own part.
  static constexpr int64_t kTimeoutNs = 10'000'000'000;

  // All pointers outlive this object. `stop`: returns true if tests are to be abandoned.
  DistributedEvaluation(Tester* tester, TestPeers peers, const Clock* clock,
                        std::function<bool()> stop);

  // Whether the test nets of `tester` have batches to divide, and results that are sums and fit
  // into gossip messages. A mean average precision needs the detections of all batches.
  static bool Fits(const Tester& tester);

  // Announces that this node takes part in the tests due from `iteration` on.
  void Join(int64_t iteration);
  // Starts the test due at `iteration`: finishes the previous test if it is still open, then
  // evaluates and publishes this node's part.
  void Begin(int64_t iteration);
  // Finishes the open test if it is complete or has timed out. One atomic load while no test is
  // open.
  void Poll();
  // Closes the open test. If this node is to log it, finishes it with the parts available.
  void Close();

  // Starts the last test, at `iteration`, where it need not be due: finishes the previous test,
  // then evaluates and publishes this node's part. `weights`: checksum of the weights, which the
  // tester already has. `nodes`: the nodes with equal weights, ascending, including this one.
  void BeginFinalTest(int64_t iteration, uint32_t weights, std::vector<NodeId> nodes);
  // For the leader, which then calls Finish: all parts of the last test have arrived, or the
  // timeout has passed. Only the parts of nodes in `reachable` are awaited.
  bool IsFinalTestReady(const std::vector<NodeId>& reachable) const;
  // The results of the last test as published by the leader; empty before that.
  std::vector<Evaluation> Published() const;

  // Finishes the open test with the parts available, on any node. Returns the results of the test
  // that was last finished here; a second call returns none.
  std::vector<Evaluation> Finish();

 private:
  // Evaluates and publishes this node's part of the open test.
  void Share(int64_t iteration, int64_t number);
  EvaluationShards Shares() const;  // those that count for the open test
  // The combined results of the open test, if all parts are available.
  std::optional<TestScores> CombinedScores() const;
  void CloseLocked();
  void FinishLocked();
  // Publishes the combined results of the last test. `all`: by net.
  void PublishCombined(const std::vector<TestSums>& all) const;
  void FinishIfReady();
  bool Ready() const;
  // Whether this node logs the open test. A node that joined and became leader after the start does
  // not know the test, and the leader at the start may have died.
  bool Logs() const { return led_ || peers_.is_leader(); }

  Tester& tester_;
  const TestPeers peers_;
  const Clock& clock_;
  const std::function<bool()> stop_;

  mutable std::mutex mutex_;  // guards the members below; held while batches are evaluated
  std::atomic<bool> open_{false};
  int64_t iteration_ = 0, number_ = 0;  // of the open test
  std::vector<NodeId> participants_;
  std::optional<uint32_t> weights_;  // checksum of the weights; set in the last test only
  bool led_ = false;                 // this node was the leader at the start
  int64_t late_ns_ = 0;              // deadline for missing parts
  std::vector<Evaluation> results_;
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_EVALUATION_DISTRIBUTED_EVALUATION_H_
