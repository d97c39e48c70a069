#include "train/node_runner.h"

#include <glog/logging.h>

#include <utility>

namespace millrace::inline train {
namespace {

constexpr int kServiceMs = 50, kStepMs = 5;

}  // namespace

NodeRunner::NodeRunner(std::unique_ptr<NodeConfig> node_config, ClusterReplica replica)
    : node_config_(std::move(node_config)) {
  replica.clock = &clock_;
  replica.sink = &errors_;
  for (const std::string& notice : node_config_->plan.notices) LOG(INFO) << notice;
  for (const std::string& warning : node_config_->plan.warnings) LOG(WARNING) << warning;
  session_ = std::make_unique<ClusterSession>(*node_config_, replica, &commands_);
}

void NodeRunner::Join(double seconds) {
  const double end = clock_.NowSeconds() + seconds;
  while (!cluster().begun()) {
    errors_.RethrowIfFailed();
    cluster().ThrowIfRefused();
    if (clock_.NowSeconds() >= end) {
      throw Error("cluster ", node_config_->topology.name, ": node ", node_config_->plan.name,
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
  TerminationDetector& termination = session_->termination();
  termination.SetLongest(longest_ns);
  for (;; commands_.Next(kStepMs)) {
    errors_.RethrowIfFailed();
    session_->LogFailures();
    const TerminationDetector::State state = termination.Update();
    if (state == TerminationDetector::State::kQuiescent) break;
    if (state != TerminationDetector::State::kDiverged) continue;
    LOG(WARNING) << "Of " << termination.there().size() << " nodes "
                 << termination.WithOwnWeights().size()
                 << " have this node's weights; going on without waiting for the others";
    break;
  }
  if (cluster().is_leader()) termination.PublishDone();
  Depart();
}

void NodeRunner::Leave() {
  service_.reset();
  Depart();
}

void NodeRunner::Depart() {
  session_->termination().PublishGone();
  session_->Leave(false);
  errors_.RethrowIfFailed();
  session_->Answer();
}

}  // namespace millrace::inline train
