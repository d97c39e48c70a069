// Tests that the nodes of a cluster share: each evaluates its part of the batches on merged
// weights as it knows them when its part begins, and the one that leads logs what they add up to.
//
// Nobody waits. A node publishes its part and trains on; the leader looks at each of its
// iterations whether all parts are there. Those that are missing after some time (a node
// has died, or is slow) it evaluates itself, so that every result rests on all batches.
//
// The last test of a run is of weights that no longer change. It counts only parts that were
// evaluated on the very weights that the leader has, and the leader tells all what came out.
#ifndef MILLRACE_TRAIN_DISTRIBUTED_EVALUATION_H_
#define MILLRACE_TRAIN_DISTRIBUTED_EVALUATION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "cluster/cluster.h"
#include "train/evaluation_shards.h"
#include "train/tester.h"

namespace millrace {

// What DistributedEvaluation asks a cluster for; tests put another in its place.
struct TestPeers {
  NodeId self = 0;
  std::function<void(std::span<const std::byte>)> publish;
  std::function<std::vector<GossipMessage>()> read;  // of all nodes, this one's included
  std::function<bool()> is_leader;                   // this node logs
  std::function<bool()> alone;                       // nobody else is left
};
TestPeers TestPeersOf(Cluster* cluster);

// Thread-safe.
class DistributedEvaluation {
 public:
  // How long the leader waits for parts: this, and three times what its own has taken.
  static constexpr int64_t kPatienceNs = 10'000'000'000;

  // All outlive this object. `stop`: tests are given up.
  DistributedEvaluation(Tester* tester, TestPeers peers, const Clock* clock,
                        std::function<bool()> stop);

  // Whether parts of these test nets fit into gossip messages; the nets must be those of `tester`.
  static bool Fits(const Tester& tester);

  // This node takes part in the tests that are due from `iteration` on.
  void Join(int64_t iteration);
  // A test is due at `iteration`: evaluates and publishes this node's part, and finishes
  // the test before, if it is still open.
  void Begin(int64_t iteration);
  // Finishes the open test, if it is time. One atomic load while there is none.
  void Poll();
  // Finishes the open test with what is there, where it is on this node to log it.
  void Close();

  // The last test is due at `iteration`: evaluates this node's part on weights of the
  // checksum `weights`, which the tester was given before, and publishes it. `nodes`,
  // ascending and this one among them, have the same weights. Finishes the test before.
  void BeginLast(int64_t iteration, uint32_t weights, std::vector<NodeId> nodes);
  // For who leads, which then calls Finish: all parts of the last test are there, or those
  // that are not are waited for no longer. `there`: nodes that still are.
  bool LastIsReady(const std::vector<NodeId>& there) const;
  // The results of the last test, if a node has put it together and told them; or empty.
  std::vector<Evaluation> Published() const;

  // Finishes the open test with what is there, whoever leads; the results of the last test
  // that was finished here, once.
  std::vector<Evaluation> Finish();

 private:
  // Evaluates and publishes this node's part of the open test.
  void Share(int64_t iteration);
  EvaluationShards Shares() const;  // those that count for the open test
  // What the parts of the open test add up to, if all are there.
  std::optional<TestScores> Whole() const;
  void CloseLocked();
  void FinishLocked();
  // The others what came out of the last test, by net.
  void Tell(const std::vector<TestSums>& all) const;
  void FinishIfReady();
  bool Ready() const;
  // Whether it is on this node to log the open test: a node that joins meanwhile and leads
  // then has heard nothing of it, and one that led may have died.
  bool Logs() const { return led_ || peers_.is_leader(); }

  Tester& tester_;
  const TestPeers peers_;
  const Clock& clock_;
  const std::function<bool()> stop_;

  mutable std::mutex mutex_;  // of what follows; held while batches are evaluated
  std::atomic<bool> open_{false};
  int64_t iteration_ = 0, number_ = 0;  // of the open test
  std::vector<NodeId> participants_;
  std::optional<uint32_t> weights_;  // in the last test: their checksum
  bool led_ = false;                 // this node did when it began
  int64_t late_ns_ = 0;              // when parts that are missing are given up
  std::vector<Evaluation> results_;
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_DISTRIBUTED_EVALUATION_H_
