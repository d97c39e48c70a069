#include "train/node_runner.h"

#include <glog/logging.h>

#include <utility>

namespace millrace {
namespace {

constexpr int kServiceMs = 50, kStepMs = 5;

}  // namespace

NodeRunner::NodeRunner(std::unique_ptr<NodeConfig> place, ClusterReplica replica)
    : place_(std::move(place)) {
  replica.clock = &clock_;
  replica.sink = &errors_;
  for (const std::string& notice : place_->plan.notices) LOG(INFO) << notice;
  for (const std::string& warning : place_->plan.warnings) LOG(WARNING) << warning;
  session_ = std::make_unique<ClusterSession>(*place_, replica, &commands_);
}

void NodeRunner::Join(double seconds) {
  const double end = clock_.NowSeconds() + seconds;
  while (!cluster().begun()) {
    errors_.RethrowIfFailed();
    cluster().ThrowIfRefused();
    if (clock_.NowSeconds() >= end) {
      throw Error("cluster ", place_->topology.name, ": node ", place_->plan.name,
                  " has not received the run's weights within ", seconds, " s");
    }
    commands_.Next(kStepMs);
  }
  service_ = std::make_unique<Thread>(
      "node",
      [this] {
        CommandReader pause(nullptr, &clock_);
        for (;; pause.Next(kServiceMs)) {
          InterruptionPoint();
          session_->failure_detector().Listen();
          session_->LogFailures();
        }
      },
      &errors_);
}

void NodeRunner::Finish(int64_t longest_ns) {
  service_.reset();
  TerminationDetector& ending = session_->ending();
  ending.SetLongest(longest_ns);
  for (;; commands_.Next(kStepMs)) {
    errors_.RethrowIfFailed();
    session_->LogFailures();
    const TerminationDetector::State state = ending.Look();
    if (state == TerminationDetector::State::kQuiescent) break;
    if (state != TerminationDetector::State::kDiverged) continue;
    LOG(WARNING) << "Of " << ending.there().size() << " nodes " << ending.WithOwnWeights().size()
                 << " have this node's weights; going on without waiting for the others";
    break;
  }
  if (cluster().is_leader()) ending.SayDone();
  Depart();
}

void NodeRunner::Leave() {
  service_.reset();
  Depart();
}

void NodeRunner::Depart() {
  session_->ending().SayGone();
  session_->Leave(false);
  errors_.RethrowIfFailed();
  session_->Answer();
}

}  // namespace millrace
