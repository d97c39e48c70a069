#include "cluster/termination_detector.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "base/crc32c.h"
#include "base/node_bits.h"
#include "base/text/utf8.h"
#include "cluster/peer_failures.h"

namespace millrace::inline cluster {
namespace {

// Maximum age of the checksum. It is also recomputed after each merge.
constexpr int64_t kCheckNs = 250'000'000;
constexpr int64_t kNsPerSecond = 1'000'000'000;
// Minimum interval between messages, so that continuous changes do not flood the cluster.
constexpr int64_t kPublishIntervalNs = 20'000'000;
// Longest time in which a node that has just joined does not know all of its peers: their metrics
// and the failure detector are sampled at intervals.
constexpr int64_t kKnowPeersNs = 200'000'000;

}  // namespace

TerminationDetector::TerminationDetector(ClusterPeers* peers, WeightReader weights,
                                         const Clock* clock)
    : peers_(*peers), weights_(std::move(weights)), clock_(*clock) {}

uint32_t TerminationDetector::Checksum(const WeightReader& weights) {
  uint32_t checksum = Crc32c({});
  weights.Read([&](std::span<float> piece) {
    // Adding 0 turns -0 into 0 and leaves all other values unchanged.
    for (float& weight : piece) weight += 0.0f;
    checksum = Crc32c(std::as_bytes(piece), checksum);
  });
  return checksum;
}

void TerminationDetector::PublishTraining(int64_t max_iteration_ns) {
  own_.set_iteration_ns(static_cast<uint64_t>(max_iteration_ns));
  own_.set_responsive(BitsOfNodes(peers_.ResponsivePeers(Recency::kInTime)));
  Publish(false);
}

TerminationDetector::State TerminationDetector::Update() {
  const int64_t now = clock_.NowNs();
  if (begin_ns_ < 0) begin_ns_ = now;
  ended_ = true;
  own_.clear_iteration_ns();
  const uint64_t merges = peers_.merges();
  if (checked_ns_ < 0 || merges != merges_ || now - checked_ns_ >= kCheckNs) {
    ComputeChecksum(now);
    merges_ = merges;  // the next Update sees merges that came meanwhile
  }
  own_.set_outstanding(!peers_.settled());
  own_.set_responsive(BitsOfNodes(peers_.ResponsivePeers(Recency::kInTime)));
  Publish(false);
  ReadPeers(false);
  const State state = Evaluate();
  same_ = state == State::kQuiescent;
  // The caller may test for a long time before it calls again. Until the others have this checksum,
  // this node appears to have other weights.
  if (same_) Publish(true);
  if (state != State::kTraining) peers_.Flush();
  return state;
}

void TerminationDetector::ComputeChecksum(int64_t now) {
  own_.set_weights(Checksum(weights_));
  checked_ns_ = now;
  const int64_t begin = pass_begin_ns_ >= 0 ? std::exchange(pass_begin_ns_, -1) : now;
  pass_ns_ = std::max(pass_ns_, clock_.NowNs() - begin);
  if (pass_ns_ < kNsPerSecond / 2) return;
  own_.set_checksum_seconds(static_cast<uint32_t>((pass_ns_ + kNsPerSecond - 1) / kNsPerSecond));
}

TerminationDetector::FinalSnapshotOwner TerminationDetector::UpdateStopped(bool is_leader,
                                                                           bool ended) {
  own_.set_gone(ended);
  ended_ |= ended;
  if (ended) own_.clear_iteration_ns();
  own_.set_priority(is_leader ? 2 : 1);
  const std::vector<NodeId> responsive = peers_.ResponsivePeers(Recency::kLately);
  own_.set_responsive(BitsOfNodes(responsive));
  Publish(false);
  std::vector<NodeId> unresponsive, all;
  std::set_difference(responsive_nodes_.begin(), responsive_nodes_.end(), responsive.begin(),
                      responsive.end(), std::back_inserter(unresponsive));
  std::set_union(responsive_nodes_.begin(), responsive_nodes_.end(), responsive.begin(),
                 responsive.end(), std::back_inserter(all));
  responsive_nodes_ = std::move(all);
  ReadPeers(true);
  // Other nodes' sets may be outdated; this node's own observation of its peers takes precedence.
  std::erase_if(reachable_, [&](NodeId node) {
    return std::binary_search(unresponsive.begin(), unresponsive.end(), node);
  });
  FinalSnapshotOwner owner = FinalSnapshotOwner::kThis;
  for (const NodeId node : reachable_) {
    const auto found = statements_.find(node);
    if (found == statements_.end() || found->second.priority() == 0)
      return FinalSnapshotOwner::kNobody;
    const uint32_t priority = found->second.priority(), own = own_.priority();
    if (priority > own || (priority == own && node < peers_.self()))
      owner = FinalSnapshotOwner::kOther;
  }
  return owner;
}

void TerminationDetector::PublishEarlyEnd(const EarlyEnd& end) {
  own_.set_end_iteration(static_cast<uint64_t>(end.iteration));
  own_.set_end_reason(FailureText(end.reason));
  Publish(true);
}

std::optional<TerminationDetector::EarlyEnd> TerminationDetector::FindEarlyEnd() {
  std::optional<EarlyEnd> first;
  const auto consider = [&](const RunEnd& end) {
    if (!end.has_end_iteration()) return;
    const auto iteration = static_cast<int64_t>(std::min<uint64_t>(end.end_iteration(), INT64_MAX));
    if (!first || iteration < first->iteration) first = EarlyEnd{iteration, end.end_reason()};
  };
  for (const auto& [node, end] : ReadEnds()) {
    if (node != peers_.self()) consider(end);
  }
  consider(own_);
  return first;
}

void TerminationDetector::PublishDone() {
  own_.set_done(true);
  Publish(true);
}

void TerminationDetector::PublishGone() {
  ended_ = true;
  own_.set_gone(true);
  own_.clear_priority();
  Publish(true);
}

void TerminationDetector::PublishFailed(const std::string& error, bool not_finite) {
  own_.set_failure(FailureText(error));
  own_.set_not_finite(not_finite);
  PublishGone();
}

void TerminationDetector::PublishTooShort(const std::string& line) {
  // Makes room for the line: the others need nothing else of this node any more.
  own_.Clear();
  own_.set_too_short(std::string(CutText(line, kMaxTooShortBytes)));
  PublishGone();
}

std::optional<std::string> TerminationDetector::FindTooShort() {
  for (const auto& [node, end] : ReadEnds()) {
    if (node != peers_.self() && end.has_too_short()) return end.too_short();
  }
  return std::nullopt;
}

bool TerminationDetector::IsTooShortHeard() {
  if (peers_.all_acked()) return true;
  const std::map<NodeId, RunEnd>& ends = ReadEnds();
  const std::vector<NodeId> peers = peers_.ResponsivePeers(Recency::kInTime);
  return std::all_of(peers.begin(), peers.end(), [&](NodeId node) {
    const auto found = ends.find(node);
    return found != ends.end() && (found->second.has_too_short() || found->second.gone());
  });
}

void TerminationDetector::PublishPeerFailures(
    const std::vector<std::pair<NodeId, uint32_t>>& peers) {
  RunEnd failed;
  for (const auto& [node, incarnation] : peers) {
    if (static_cast<size_t>(failed.failed_peer_size()) == kMaxFailedPeers) break;
    failed.add_failed_peer()->set_node(node);
    failed.mutable_failed_peer()->rbegin()->set_incarnation(incarnation);
  }
  const auto text = [](const RunEnd& end) {
    RunEnd peers_only;
    *peers_only.mutable_failed_peer() = end.failed_peer();
    return peers_only.SerializeAsString();
  };
  if (text(failed) == text(own_)) return;
  *own_.mutable_failed_peer() = failed.failed_peer();
  // Without it, the message would say that this node's solvers have ended.
  if (!ended_ && !own_.has_iteration_ns()) own_.set_iteration_ns(0);
  own_.set_responsive(BitsOfNodes(peers_.ResponsivePeers(Recency::kInTime)));
  Publish(true);
}

void TerminationDetector::Publish(bool at_once) {
  std::string bytes = own_.SerializeAsString();
  const int64_t now = clock_.NowNs();
  if (bytes == published_ ||
      (!at_once && !published_.empty() && now - published_ns_ < kPublishIntervalNs))
    return;
  published_ = std::move(bytes);
  published_ns_ = now;
  peers_.Publish(GossipKey::kEnd, std::as_bytes(std::span(published_)));
}

// Leaving nodes are not reachable; if this node is `stopped` too, those that may still become final
// snapshot owner are.
void TerminationDetector::ReadPeers(bool stopped) {
  statements_ = ReadEnds();
  statements_[peers_.self()] = own_;
  std::vector<NodeId> leaving;
  for (const auto& [node, end] : statements_) {
    if (end.gone() && (!stopped || end.priority() == 0)) leaving.push_back(node);
  }
  reachable_ = ReachableNodes(peers_.self(), BitsOfNodes(leaving), [&](NodeId node) {
    const auto found = statements_.find(node);
    return found == statements_.end() ? std::string() : found->second.responsive();
  });
}

TerminationDetector::State TerminationDetector::Evaluate() {
  const int64_t now = clock_.NowNs();
  if (!Training().empty()) {
    all_ended_ns_ = -1;
    return now - begin_ns_ < TrainingTimeout() ? State::kTraining : State::kDiverged;
  }
  if (reachable_.size() < peers_.members() && now - begin_ns_ < kKnowPeersNs)
    return State::kInFlight;
  if (WithWeights(own_.weights()).size() == reachable_.size()) {
    // A diff in flight may be too small to change its sender's weights, and still move those of a
    // master whose merge rule has momentum.
    if (equal_ns_ < 0) equal_ns_ = now;
    const bool may_move = !Outstanding().empty() && now - equal_ns_ < kStillNs;
    return may_move ? State::kInFlight : State::kQuiescent;
  }
  equal_ns_ = -1;
  std::vector<uint32_t> checksums;
  for (const NodeId node : reachable_) checksums.push_back(statements_.at(node).weights());
  if (all_ended_ns_ < 0) all_ended_ns_ = moved_ns_ = unsettled_ns_ = now;
  if (checksums != moving_) moved_ns_ = now;
  moving_ = std::move(checksums);
  if (!Outstanding().empty()) unsettled_ns_ = now;
  const int64_t still = std::max(moved_ns_, unsettled_ns_);
  const int64_t timeout = StillTimeout();
  const bool in_time = now - still < timeout &&
                       now - moved_ns_ < std::max(timeout, kOutstandingNs) &&
                       now - all_ended_ns_ < kMoveNs;
  return in_time ? State::kInFlight : State::kDiverged;
}

int64_t TerminationDetector::StillTimeout() const {
  uint32_t seconds = 0;
  for (const NodeId node : reachable_) {
    seconds = std::max(seconds, statements_.at(node).checksum_seconds());
  }
  return kStillNs + kPasses * kNsPerSecond * seconds;
}

// Nodes that have not yet published their longest iteration are assumed to be as fast as this node.
// A node that exceeds the longest iteration kIterations times counts as stuck.
int64_t TerminationDetector::TrainingTimeout() const {
  constexpr uint64_t kMax = kMaxTrainNs / kIterations;
  auto longest = static_cast<uint64_t>(max_iteration_ns_);
  for (const NodeId node : Training()) {
    const auto found = statements_.find(node);
    if (found != statements_.end()) longest = std::max(longest, found->second.iteration_ns());
  }
  return std::max(kTrainNs, kIterations * static_cast<int64_t>(std::min(longest, kMax)));
}

std::vector<NodeId> TerminationDetector::Outstanding() const {
  std::vector<NodeId> nodes;
  for (const NodeId node : reachable_) {
    const auto found = statements_.find(node);
    if (found != statements_.end() && found->second.outstanding()) nodes.push_back(node);
  }
  return nodes;
}

std::vector<NodeId> TerminationDetector::WithWeights(uint32_t checksum) const {
  std::vector<NodeId> nodes;
  for (const NodeId node : reachable_) {
    const auto found = statements_.find(node);
    const bool same = found != statements_.end() && found->second.weights() == checksum;
    if (same || node == peers_.self()) nodes.push_back(node);
  }
  return nodes;
}

std::vector<NodeId> TerminationDetector::Training() const {
  std::vector<NodeId> nodes;
  for (const NodeId node : reachable_) {
    const auto found = statements_.find(node);
    // A stopped node may still finish an iteration.
    if (found == statements_.end() || found->second.priority() > 0 ||
        found->second.has_iteration_ns()) {
      nodes.push_back(node);
    }
  }
  return nodes;
}

bool TerminationDetector::done() const {
  return std::any_of(statements_.begin(), statements_.end(),
                     [](const auto& each) { return each.second.done(); });
}

}  // namespace millrace::inline cluster
