#include "train/evaluation/distributed_evaluation.h"

#include <glog/logging.h>

#include <algorithm>
#include <iterator>

namespace millrace::inline train {
namespace {

// Appends the sums of the next net, over batches from `first` on.
void AddSums(int first, const TestSums& sums, TestShare* share) {
  TestNetSums* out = share->add_net();
  out->set_first(first);
  out->set_batches(sums.batches);
  out->set_loss(sums.loss);
  out->mutable_output()->Assign(sums.outputs.begin(), sums.outputs.end());
}

void Publish(const TestPeers& peers, const TestShare& share) {
  const std::string bytes = share.SerializeAsString();
  peers.publish(std::as_bytes(std::span(bytes)));
}

}  // namespace

TestPeers TestPeersOf(Cluster* cluster) {
  return {.self = cluster->node(),
          .publish = [=](auto bytes) { cluster->Publish(GossipKey::kTest, bytes); },
          .read = [=] { return cluster->Read(GossipKey::kTest); },
          .is_leader = [=] { return cluster->is_leader(); },
          .alone = [=] { return cluster->alone(); }};
}

DistributedEvaluation::DistributedEvaluation(Tester* tester, TestPeers peers, const Clock* clock,
                                             std::function<bool()> stop)
    : tester_(*tester), peers_(std::move(peers)), clock_(*clock), stop_(std::move(stop)) {}

bool DistributedEvaluation::Fits(const Tester& tester) {
  // Upper bound of the protobuf encoding: tag and value of each number.
  size_t bytes = 18;
  for (int net = 0; net < tester.nets(); ++net) {
    if (tester.batches(net) == 0 || tester.has_detections(net)) return false;
    bytes += 48 + 8 * tester.outputs(net);
  }
  return bytes <= kMaxGossipBytes;
}

void DistributedEvaluation::Join(int64_t iteration) {
  TestShare share;
  // Announces the number of the previous test, so that this node takes part in a test due at
  // `iteration` itself.
  share.set_test(iteration > 0 ? tester_.NumberOf(iteration - 1) : tester_.NumberOf(0) - 1);
  Publish(peers_, share);
}

void DistributedEvaluation::Begin(int64_t iteration) {
  std::lock_guard lock(mutex_);
  CloseLocked();
  participants_ = Participants(ReadShares(peers_.read()), peers_.self, tester_.NumberOf(iteration));
  Share(iteration, tester_.NumberOf(iteration));
  if (open_) FinishIfReady();
}

void DistributedEvaluation::BeginFinalTest(int64_t iteration, uint32_t weights,
                                           std::vector<NodeId> nodes) {
  std::lock_guard lock(mutex_);
  CloseLocked();
  participants_ = std::move(nodes);
  weights_ = weights;
  // Between two tests, the last one has the batches of the next.
  Share(iteration, tester_.NumberOf(iteration) + (tester_.Due(iteration) ? 0 : 1));
}

void DistributedEvaluation::Share(int64_t iteration, int64_t number) {
  open_ = false;
  results_.clear();
  led_ = peers_.is_leader();
  iteration_ = iteration;
  number_ = number;
  const size_t place =
      std::find(participants_.begin(), participants_.end(), peers_.self) - participants_.begin();
  TestShare share;
  share.set_test(number_);
  if (weights_) share.set_weights(*weights_);
  tester_.RefreshWeights(stop_);
  const int64_t begin = clock_.NowNs();
  for (int net = 0; net < tester_.nets(); ++net) {
    const BatchRange part = ShareOf(place, participants_.size(), tester_.batches(net));
    const TestSums sums = tester_.Part(number_, net, part.first, part.count, stop_);
    if (sums.batches < part.count) return;  // abandoned
    AddSums(part.first, sums, &share);
  }
  Publish(peers_, share);
  const int64_t now = clock_.NowNs();
  late_ns_ = now + kTimeoutNs + 3 * (now - begin);
  open_ = true;
}

EvaluationShards DistributedEvaluation::Shares() const {
  EvaluationShards shares = ReadShares(peers_.read());
  if (weights_) {
    std::erase_if(shares, [&](const auto& each) { return each.second.weights() != *weights_; });
  }
  return shares;
}

bool DistributedEvaluation::IsFinalTestReady(const std::vector<NodeId>& reachable) const {
  std::lock_guard lock(mutex_);
  std::vector<NodeId> awaited;
  std::set_intersection(participants_.begin(), participants_.end(), reachable.begin(),
                        reachable.end(), std::back_inserter(awaited));
  return AllDone(Shares(), awaited, number_) || clock_.NowNs() >= late_ns_;
}

std::vector<Evaluation> DistributedEvaluation::Published() const {
  std::lock_guard lock(mutex_);
  for (const auto& [node, share] : ReadShares(peers_.read())) {
    // Nodes that disagree on the iteration at which the run ends may have the same weights.
    if (!share.whole() || (share.test() != number_ && weights_ != share.weights())) continue;
    std::vector<Evaluation> results;
    for (int net = 0; net < tester_.nets(); ++net) {
      const int batches = tester_.batches(net);
      const Gathered all =
          Gather({{node, share}}, share.test(), net, batches, tester_.outputs(net));
      if (!all.missing.empty()) return {};
      results.push_back(tester_.Means(net, all.sums));
    }
    return results;
  }
  return {};
}

std::optional<TestScores> DistributedEvaluation::CombinedScores() const {
  const EvaluationShards shares = Shares();
  TestScores scores{iteration_, {}};
  for (int net = 0; net < tester_.nets(); ++net) {
    const Gathered all = Gather(shares, number_, net, tester_.batches(net), tester_.outputs(net));
    if (!all.missing.empty()) return std::nullopt;
    scores.nets.push_back(tester_.Means(net, all.sums));
  }
  return scores;
}

void DistributedEvaluation::Close() {
  std::lock_guard lock(mutex_);
  CloseLocked();
}

// A node that does not log the test still stores its results if all parts have arrived.
void DistributedEvaluation::CloseLocked() {
  if (!open_) return;
  if (Logs()) return FinishLocked();
  open_ = false;
  if (auto scores = CombinedScores()) tester_.SetLast(*std::move(scores));
}

void DistributedEvaluation::Poll() {
  if (!open_.load(std::memory_order_relaxed)) return;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock && open_) FinishIfReady();
}

// A node that is not the leader keeps the test open until then, in case the leader dies.
void DistributedEvaluation::FinishIfReady() {
  if (Ready()) CloseLocked();
}

bool DistributedEvaluation::Ready() const {
  return AllDone(ReadShares(peers_.read()), participants_, number_) || peers_.alone() ||
         clock_.NowNs() >= late_ns_;
}

std::vector<Evaluation> DistributedEvaluation::Finish() {
  std::lock_guard lock(mutex_);
  if (open_) FinishLocked();
  return std::exchange(results_, {});
}

void DistributedEvaluation::FinishLocked() {
  open_ = false;
  results_.clear();
  const EvaluationShards shares = Shares();
  std::vector<TestSums> all;
  int filled = 0;
  for (int net = 0; net < tester_.nets(); ++net) {
    Gathered gathered = Gather(shares, number_, net, tester_.batches(net), tester_.outputs(net));
    for (const BatchRange& missing : gathered.missing) {
      const TestSums sums = tester_.Part(number_, net, missing.first, missing.count, stop_);
      if (sums.batches < missing.count) return;  // abandoned
      gathered.sums.Add(sums);
      filled += missing.count;
    }
    all.push_back(std::move(gathered.sums));
  }
  if (filled > 0) {
    LOG(INFO) << "Test at iteration " << iteration_ << ": " << filled
              << " batches came from no other node and were evaluated here";
  }
  for (int net = 0; net < tester_.nets(); ++net) {
    results_.push_back(tester_.Report(iteration_, net, all[net]));
  }
  tester_.SetLast({iteration_, results_});
  if (weights_) PublishCombined(all);
}

void DistributedEvaluation::PublishCombined(const std::vector<TestSums>& all) const {
  TestShare whole;
  whole.set_test(number_);
  whole.set_weights(*weights_);
  whole.set_whole(true);
  for (const TestSums& sums : all) AddSums(0, sums, &whole);
  Publish(peers_, whole);
}

}  // namespace millrace::inline train
