#include "train/cluster_part.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstdlib>

#include "proto/parse.h"
#include "topology/choose_node.h"

namespace millrace {
namespace {

// How long a node that stops waits for the others: for those that stop with it, and
// for those that have still to finish their last iteration.
constexpr int64_t kStopMs = 1300, kFinishMs = 30'000, kLeaveMs = 1500;
// And how long it answers those that have not heard yet that they may go.
constexpr int64_t kAnswerMs = 1000;
// Each of these at most, once a signal has come meanwhile.
constexpr int64_t kHurryMs = 400;

}  // namespace

std::unique_ptr<Place> FindPlace(const TrainOptions& options) {
  if (options.topology.empty()) {
    if (!options.node.empty())
      throw Error("--node=", options.node, ": expected --topology with it");
    return nullptr;
  }
  auto place = std::make_unique<Place>();
  place->topology = LoadTopology(options.topology, TransportsForTopologies());
  const NodeId node = ChooseNode(place->topology, options.node, getenv);
  if (!place->topology.nodes[node].memory.on_host()) {
    throw Located(place->topology.source,
                  FieldError(Cat("node[", node, "].memory"),
                             "a device given, but train has solvers on CPUs only, expected host; "
                             "millrace bench measures with either"));
  }
  place->plan = PlanFor(place->topology, node);
  return place;
}

ClusterPart::ClusterPart(const Place& place, const ClusterReplica& replica, SignalWatch* signals)
    : place_(place),
      clock_(*replica.clock),
      iterations_(*replica.iterations),
      errors_(*replica.sink),
      signals_(*signals),
      cluster_(StartCluster(place.topology, place.plan, replica)),
      neighbours_(cluster_.get(), replica.clock) {}

bool ClusterPart::Join() {
  const NodePlan& plan = place_.plan;
  LOG(INFO) << "Node " << plan.name << " (" << plan.node << " of " << place_.topology.nodes.size()
            << ") of cluster " << place_.topology.name << ": waiting for the weights of the run";
  while (!cluster_->begun()) {
    errors_.RethrowIfFailed();
    cluster_->ThrowIfRefused();
    if (signals_.Next(20) == SignalEffect::kStop) {
      LOG(INFO) << "Stopped before the weights were there.";
      return false;
    }
  }
  if (cluster_->founded()) {
    LOG(INFO) << "The run begins with the weights of this node, at iteration "
              << iterations_.claimed();
  } else {
    LOG(INFO) << "Joined the run at iteration " << iterations_.claimed() << "; "
              << cluster_->members() << " nodes are in sync";
  }
  return true;
}

bool ClusterPart::Leave(bool stopped) {
  const bool last = Settle(stopped);
  for (const ClusterSegment& segment : cluster_->segments()) {
    LOG(INFO) << "Segment " << segment.net->name() << ": "
              << SummaryOf(segment.net->meters(), segment.net->transport().counters());
  }
  return last;
}

void ClusterPart::Answer() {
  WaitFor(kAnswerMs, [this] { return cluster_->quiet(); });
}

bool ClusterPart::Settle(bool stopped) {
  const int64_t patience = stopped ? kStopMs : kFinishMs;
  const bool nobody_depends = WaitFor(patience, [this] { return !cluster_->others_depend(); });
  if (cluster_->alone()) return true;
  if (!stopped && !nobody_depends && cluster_->leads()) {
    LOG(WARNING) << cluster_->members() - 1 << " other nodes have not finished after "
                 << patience / 1000 << " s; going on without what they still have";
    return true;
  }
  // What this node has said goes before it does.
  WaitFor(kLeaveMs, [this] { return cluster_->informed(); });
  cluster_->Leave();
  // Those that leave at the same time may leave this one alone.
  if (WaitFor(kLeaveMs, [this] { return cluster_->left() || cluster_->alone(); }) &&
      cluster_->alone()) {
    return true;
  }
  if (cluster_->delivered()) {
    LOG(INFO) << "Left the cluster; the other nodes have all that this one did";
  } else {
    LOG(WARNING) << "Left the cluster in a hurry: what was not sent yet is lost";
  }
  return false;
}

bool ClusterPart::WaitFor(int64_t ms, const std::function<bool()>& done) {
  const auto after = [this](int64_t wait) {
    return clock_.NowSeconds() + static_cast<double>(wait) * 1e-3;
  };
  double end = after(hurries_ ? std::min(ms, kHurryMs) : ms);
  while (!done()) {
    if (errors_.failed() || clock_.NowSeconds() >= end) return false;
    if (signals_.Next(5) == SignalEffect::kStop) {
      hurries_ = true;
      end = std::min(end, after(kHurryMs));
    }
  }
  return true;
}

}  // namespace millrace
