#include "cluster/quiescence_wait.h"

#include <glog/logging.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace millrace::inline cluster {
namespace {

constexpr int64_t kLongNs = 1'000'000'000, kLogAgainNs = 10'000'000'000;

}  // namespace

QuiescenceWait::QuiescenceWait(TerminationDetector* termination, const ClusterPeers* peers,
                               std::vector<PeerLabel> labels, std::function<uint32_t()> freeze,
                               const Clock* clock)
    : termination_(*termination),
      peers_(*peers),
      labels_(std::move(labels)),
      freeze_(std::move(freeze)),
      clock_(*clock),
      began_ns_(clock->NowNs()) {
  termination_.BeginUpdates();
}

QuiescenceWait::Result QuiescenceWait::Step() {
  switch (termination_.Update()) {
    case TerminationDetector::State::kTraining:
      LogTraining();
      break;
    case TerminationDetector::State::kInFlight:
      LogInFlight();
      break;
    case TerminationDetector::State::kQuiescent:
      checksum_ = freeze_();
      // The weights may have changed since Update.
      if (termination_.WithWeights(checksum_) == termination_.reachable())
        return Result::kQuiescent;
      break;
    case TerminationDetector::State::kDiverged:
      checksum_ = freeze_();
      failure_ = DivergedText();
      return Result::kDiverged;
  }
  return Result::kWaiting;
}

// Logs each set of nodes once, if the wait is long.
void QuiescenceWait::LogTraining() {
  const std::vector<NodeId> training = termination_.Training();
  if (training == training_ || clock_.NowNs() - began_ns_ < kLongNs) return;
  training_ = training;
  LOG(INFO) << "Waiting for the last iterations of " << NamesOf(training);
}

void QuiescenceWait::LogInFlight() {
  const int64_t now = clock_.NowNs();
  if (log_in_flight_ns_ < 0) log_in_flight_ns_ = now + kLongNs;
  if (now < log_in_flight_ns_) return;
  log_in_flight_ns_ = now + kLogAgainNs;
  LOG(INFO) << "Waiting until all nodes have the same weights: of "
            << termination_.reachable().size() << " " << termination_.WithOwnWeights().size()
            << " have this node's";
}

std::string QuiescenceWait::DivergedText() const {
  const std::string begin = "the replicas are apart at the end of the run: ";
  const std::vector<NodeId> training = termination_.Training();
  if (!training.empty()) {
    return StrCat(begin, "these nodes have not ended in time, and the saved model may lack their ",
                  "progress: ", NamesOf(training, true));
  }
  const std::vector<NodeId>& all = termination_.reachable();
  const std::vector<NodeId> same = termination_.WithWeights(checksum_);
  std::vector<NodeId> others;
  std::set_difference(all.begin(), all.end(), same.begin(), same.end(), std::back_inserter(others));
  return StrCat(begin, "of ", all.size(), " nodes ", same.size(), " have this node's weights; ",
                "others: ", NamesOf(others, true), LikelyCause());
}

std::string QuiescenceWait::LikelyCause() const {
  const uint64_t non_finite = peers_.non_finite();
  if (non_finite > 0) {
    return StrCat("; likely cause: weights of a node have overflowed, as ", non_finite,
                  " frames were dropped here because a value was not finite; expected a lower ",
                  "base_lr, the same on all nodes");
  }
  const std::vector<NodeId> outstanding = termination_.Outstanding();
  if (outstanding.empty()) return "";
  return StrCat("; likely cause: a link or a processor that is too slow, as progress of ",
                NamesOf(outstanding), " is still under way");
}

std::string QuiescenceWait::NamesOf(const std::vector<NodeId>& nodes, bool with_segments) const {
  std::string text;
  for (const NodeId node : nodes) {
    text += node == nodes.front() ? "" : ", ";
    const PeerLabel label =
        node < labels_.size() ? labels_[node] : PeerLabel{StrCat("#", node), ""};
    text += label.node;
    if (with_segments && !label.segment.empty()) text += " on segment " + label.segment;
  }
  return text;
}

}  // namespace millrace::inline cluster
