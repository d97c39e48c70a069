#include "train/cluster/node_runner.h"

#include <glog/logging.h>

#include <span>
#include <utility>

namespace millrace::inline train {
namespace {

constexpr int kServiceMs = 50, kCommandMs = 5;

}  // namespace

NodeRunner::NodeRunner(const NodeConfig& node_config, ClusterReplica replica)
    : node_config_(node_config) {
  replica.clock = &clock_;
  replica.sink = &errors_;
  for (const std::string& notice : node_config_.plan.notices) LOG(INFO) << notice;
  for (const std::string& warning : node_config_.plan.warnings) LOG(WARNING) << warning;
  const std::span<const float> weights(replica.weights, static_cast<size_t>(replica.size));
  session_ = std::make_unique<ClusterSession>(node_config_, replica, weights, &commands_);
}

void NodeRunner::Join(double seconds, const std::function<void()>& poll) {
  const double end = clock_.NowSeconds() + seconds;
  while (!session_->life().PollJoin()) {
    errors_.RethrowIfFailed();
    cluster().ThrowIfRefused();
    if (session_->run_ended()) {
      throw Error("cluster ", node_config_.topology.name, ": the run has ended before node ",
                  node_config_.plan.name, " had its weights");
    }
    if (clock_.NowSeconds() >= end) {
      throw Error("cluster ", node_config_.topology.name, ": node ", node_config_.plan.name,
                  " has not received the run's weights within ", seconds, " s");
    }
    commands_.Next(kCommandMs);
    if (poll) poll();
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

void NodeRunner::Finish(int64_t max_iteration_ns, const std::function<void()>& poll) {
  service_.reset();
  NodeLife& life = session_->life();
  if (life.phase() == NodeLife::Phase::kTraining) {
    life.SetLongest(max_iteration_ns);
    life.BeginEnding();
  }
  while (life.PollEnd() == QuiescenceWait::Result::kWaiting) {
    errors_.RethrowIfFailed();
    session_->LogFailures();
    commands_.Next(kCommandMs);
    if (poll) poll();
  }
  if (cluster().is_leader()) life.termination().PublishDone();
  LeaveAndAnswer(LeaveReason::kEnd);
  session_->LogFailures();
  const std::string not_finite = life.NotFinite();
  if (!not_finite.empty()) throw Error(not_finite);
  if (!life.diverged().empty()) throw Error(life.diverged());
}

void NodeRunner::PublishFailed(std::exception_ptr error) {
  if (cluster().begun()) session_->PublishFailed(std::move(error), true);
}

void NodeRunner::Leave() {
  service_.reset();
  LeaveAndAnswer(LeaveReason::kEarly);
}

void NodeRunner::LeaveAndAnswer(LeaveReason reason) {
  session_->Leave(reason);
  errors_.RethrowIfFailed();
  session_->Answer();
}

}  // namespace millrace::inline train
