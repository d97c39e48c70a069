#include "cluster/termination_detector.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <utility>

#include "base/crc32c.h"
#include "base/node_bits.h"
#include "cluster/peer_failures.h"
#include "cluster/read_gossip.h"

namespace millrace {
namespace {

// Maximum age of the checksum. It is also recomputed after each merge.
constexpr int64_t kCheckNs = 250'000'000;
// Minimum interval between messages, so that continuous changes do not flood the cluster.
constexpr int64_t kTellNs = 20'000'000;

}  // namespace

// Reads concurrently with solvers and segments that write.
__attribute__((noinline)) uint32_t HogwildReadChecksum(std::span<const float> weights) {
  std::array<float, 1024> part;
  uint32_t checksum = Crc32c({});
  while (!weights.empty()) {
    const size_t count = std::min(weights.size(), part.size());
    // Adding 0 turns -0 into 0 and leaves all other values unchanged.
    for (size_t i = 0; i < count; ++i) part[i] = weights[i] + 0.0f;
    checksum = Crc32c(std::as_bytes(std::span(part).first(count)), checksum);
    weights = weights.subspan(count);
  }
  return checksum;
}

TerminationPeers TerminationPeersOf(Cluster* cluster, FailureDetector* failure_detector) {
  return {.self = cluster->node(),
          .publish = [=](auto bytes) { cluster->Publish(GossipKey::kEnd, bytes); },
          .read = [=] { return cluster->Read(GossipKey::kEnd); },
          .heard = [=](int64_t within_ns) { return failure_detector->Heard(within_ns); },
          .merges =
              [=] {
                uint64_t all = 0;
                for (const ClusterSegment& segment : cluster->segments()) {
                  all += segment.net->state().merges();
                }
                return all;
              },
          .flush = [=] { cluster->Flush(); }};
}

TerminationDetector::TerminationDetector(TerminationPeers peers, std::span<const float> weights,
                                         const Clock* clock)
    : peers_(std::move(peers)), weights_(weights), clock_(*clock) {}

uint32_t TerminationDetector::Checksum(std::span<const float> weights) {
  return HogwildReadChecksum(weights);
}

void TerminationDetector::TellTraining(int64_t longest_ns) {
  own_.set_iteration_ns(static_cast<uint64_t>(longest_ns));
  own_.set_heard(BitsOf(peers_.heard(FailureDetector::kAnyRecent)));
  Tell(false);
}

TerminationDetector::State TerminationDetector::Look() {
  const int64_t now = clock_.NowNs();
  if (begin_ns_ < 0) begin_ns_ = now;
  own_.clear_iteration_ns();
  const uint64_t merges = peers_.merges();
  if (checked_ns_ < 0 || merges != merges_ || now - checked_ns_ >= kCheckNs) {
    own_.set_weights(Checksum(weights_));
    merges_ = merges;  // the next Look sees merges that came meanwhile
    checked_ns_ = now;
  }
  own_.set_heard(BitsOf(peers_.heard(FailureDetector::kAnyRecent)));
  Tell(false);
  Hear(false);
  const State state = Judge();
  same_ = state == State::kQuiescent;
  if (state != State::kTraining) peers_.flush();
  return state;
}

TerminationDetector::FinalSnapshotOwner TerminationDetector::LookStopped(bool is_leader,
                                                                         bool ended) {
  own_.set_gone(ended);
  if (ended) own_.clear_iteration_ns();
  own_.set_claim(is_leader ? 2 : 1);
  const std::vector<NodeId> heard = peers_.heard(kSilentNs);
  own_.set_heard(BitsOf(heard));
  Tell(false);
  std::vector<NodeId> silent, all;
  std::set_difference(heard_nodes_.begin(), heard_nodes_.end(), heard.begin(), heard.end(),
                      std::back_inserter(silent));
  std::set_union(heard_nodes_.begin(), heard_nodes_.end(), heard.begin(), heard.end(),
                 std::back_inserter(all));
  heard_nodes_ = std::move(all);
  Hear(true);
  // Other nodes' sets may be outdated; this node's own observation of its peers takes precedence.
  std::erase_if(
      there_, [&](NodeId node) { return std::binary_search(silent.begin(), silent.end(), node); });
  FinalSnapshotOwner saver = FinalSnapshotOwner::kThis;
  for (const NodeId node : there_) {
    const auto found = statements_.find(node);
    if (found == statements_.end() || found->second.claim() == 0)
      return FinalSnapshotOwner::kNobody;
    const uint32_t claim = found->second.claim(), own = own_.claim();
    if (claim > own || (claim == own && node < peers_.self)) saver = FinalSnapshotOwner::kOther;
  }
  return saver;
}

void TerminationDetector::SayDone() {
  own_.set_done(true);
  Tell(true);
}

void TerminationDetector::SayGone() {
  own_.set_gone(true);
  own_.clear_claim();
  Tell(true);
}

void TerminationDetector::SayFailed(const std::string& error, bool not_finite) {
  own_.set_failure(FailureText(error));
  own_.set_not_finite(not_finite);
  SayGone();
}

void TerminationDetector::Tell(bool at_once) {
  std::string bytes = own_.SerializeAsString();
  const int64_t now = clock_.NowNs();
  if (bytes == told_ || (!at_once && !told_.empty() && now - told_ns_ < kTellNs)) return;
  told_ = std::move(bytes);
  told_ns_ = now;
  peers_.publish(std::as_bytes(std::span(told_)));
}

// Computes the transitive closure of reachable nodes. Leaving nodes are excluded; if this node is
// `stopped` too, those that may still become final snapshot owner are included.
void TerminationDetector::Hear(bool stopped) {
  statements_ = ReadGossip<RunEnd>(peers_.read());
  statements_[peers_.self] = own_;
  there_ = {peers_.self};
  const auto goes = [&](NodeId node) {
    const auto found = statements_.find(node);
    if (found == statements_.end() || !found->second.gone()) return false;
    return !stopped || found->second.claim() == 0;
  };
  std::string seen = BitsOf(there_);
  for (size_t next = 0; next < there_.size(); ++next) {
    const auto found = statements_.find(there_[next]);
    if (found == statements_.end()) continue;
    const std::string& heard = found->second.heard();
    seen.resize(std::max(seen.size(), heard.size()));
    for (size_t byte = 0; byte < heard.size(); ++byte) {
      for (auto fresh = static_cast<unsigned char>(heard[byte] & ~seen[byte]); fresh != 0;
           fresh &= fresh - 1) {
        const auto node = static_cast<NodeId>(8 * byte + std::countr_zero(fresh));
        if (!goes(node)) there_.push_back(node);
      }
      seen[byte] = static_cast<char>(seen[byte] | heard[byte]);
    }
  }
  std::sort(there_.begin(), there_.end());
}

TerminationDetector::State TerminationDetector::Judge() {
  const int64_t now = clock_.NowNs();
  if (!Training().empty()) {
    all_ended_ns_ = -1;
    return now - begin_ns_ < TrainingPatience() ? State::kTraining : State::kDiverged;
  }
  if (WithWeights(own_.weights()).size() == there_.size()) return State::kQuiescent;
  std::vector<uint32_t> checksums;
  for (const NodeId node : there_) checksums.push_back(statements_.at(node).weights());
  if (all_ended_ns_ < 0) all_ended_ns_ = moved_ns_ = now;
  if (checksums != moving_) moved_ns_ = now;
  moving_ = std::move(checksums);
  const bool patient = now - moved_ns_ < kStillNs && now - all_ended_ns_ < kMoveNs;
  return patient ? State::kInFlight : State::kDiverged;
}

// Nodes that have not yet published their longest iteration are assumed to be as fast as this node.
// A node that exceeds the longest iteration kIterations times counts as stuck.
int64_t TerminationDetector::TrainingPatience() const {
  constexpr uint64_t kMost = kMostTrainNs / kIterations;
  auto longest = static_cast<uint64_t>(longest_ns_);
  for (const NodeId node : Training()) {
    const auto found = statements_.find(node);
    if (found != statements_.end()) longest = std::max(longest, found->second.iteration_ns());
  }
  return std::max(kTrainNs, kIterations * static_cast<int64_t>(std::min(longest, kMost)));
}

std::vector<NodeId> TerminationDetector::WithWeights(uint32_t checksum) const {
  std::vector<NodeId> nodes;
  for (const NodeId node : there_) {
    const auto found = statements_.find(node);
    const bool same = found != statements_.end() && found->second.weights() == checksum;
    if (same || node == peers_.self) nodes.push_back(node);
  }
  return nodes;
}

std::vector<NodeId> TerminationDetector::Training() const {
  std::vector<NodeId> nodes;
  for (const NodeId node : there_) {
    const auto found = statements_.find(node);
    // A stopped node may still finish an iteration.
    if (found == statements_.end() || found->second.claim() > 0 ||
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

}  // namespace millrace
