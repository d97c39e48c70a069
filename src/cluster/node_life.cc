#include "cluster/node_life.h"

#include <glog/logging.h>

#include <utility>

namespace millrace::inline cluster {
namespace {

std::vector<std::string> NamesOf(const std::vector<PeerLabel>& labels) {
  std::vector<std::string> names;
  for (const PeerLabel& label : labels) names.push_back(label.node);
  return names;
}

}  // namespace

NodeLife::NodeLife(ClusterPeers* peers, WeightReader weights, std::vector<PeerLabel> labels,
                   std::function<std::optional<int64_t>()> stopped_ns, const Clock* clock)
    : peers_(*peers),
      weights_(std::move(weights)),
      labels_(std::move(labels)),
      clock_(*clock),
      termination_(peers, weights_, clock),
      leave_(peers, std::move(stopped_ns), clock),
      failures_(peers, NamesOf(labels_)) {}

bool NodeLife::PollJoin() {
  CHECK(phase_ == Phase::kJoining);
  if (!peers_.begun()) return false;
  phase_ = Phase::kTraining;
  return true;
}

void NodeLife::BeginEnding(std::function<uint32_t()> freeze) {
  CHECK(phase_ == Phase::kTraining);
  if (!freeze) freeze = [this] { return TerminationDetector::Checksum(weights_); };
  quiescence_.emplace(&termination_, &peers_, labels_, std::move(freeze), &clock_);
  phase_ = Phase::kEnding;
}

QuiescenceWait::Result NodeLife::PollEnd() {
  CHECK(phase_ == Phase::kEnding);
  const QuiescenceWait::Result result = quiescence_->Step();
  if (result != QuiescenceWait::Result::kWaiting) phase_ = Phase::kSaving;
  return result;
}

const std::string& NodeLife::diverged() const {
  static const std::string none;
  return quiescence_ ? quiescence_->failure() : none;
}

void NodeLife::BeginLeave(LeaveReason reason) {
  CHECK(phase_ < Phase::kLeaving);
  if (reason != LeaveReason::kStopped) termination_.PublishGone();
  if (phase_ == Phase::kJoining) {
    leave_.BeginUnsynced();
  } else {
    leave_.Begin(&termination_, reason);
  }
  phase_ = Phase::kLeaving;
}

bool NodeLife::PollLeave() {
  CHECK(phase_ == Phase::kLeaving);
  if (!leave_.Step()) return false;
  phase_ = Phase::kAnswering;
  return true;
}

bool NodeLife::PollAnswer() {
  CHECK(phase_ == Phase::kAnswering);
  if (!leave_.HasReplied()) return false;
  phase_ = Phase::kGone;
  return true;
}

void NodeLife::PublishFailed(const std::string& error, bool not_finite) {
  std::lock_guard lock(publish_mutex_);
  termination_.PublishFailed(error, not_finite);
}

void NodeLife::PublishTooShort(const std::string& line) {
  std::lock_guard lock(publish_mutex_);
  termination_.PublishTooShort(line);
}

std::vector<std::string> NodeLife::TakeFailures() {
  std::vector<std::string> lines = failures_.TakeNew();
  if (!peers_.begun() || !peers_.is_leader()) return lines;
  std::lock_guard lock(publish_mutex_);
  termination_.PublishPeerFailures(failures_.AllNotFinite());
  return lines;
}

}  // namespace millrace::inline cluster
