#include "cluster/failure_detector.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "cluster/read_gossip.h"
#include "proto/gossip.pb.h"

namespace millrace::inline cluster {
namespace {

// Interval between samples. A scan visits up to a thousand peers.
constexpr int64_t kListenNs = 100'000'000;

// Heartbeat intervals of Recency::kLately. A peer timeout has at least three of them.
int64_t LatelyNs(const NetSegment& net) {
  return std::max(net.peer_timeout_ns() / 2, 2 * net.heartbeat_ns());
}

}  // namespace

FailureDetector::FailureDetector(const Cluster* cluster, const Clock* clock)
    : cluster_(*cluster), clock_(*clock) {}

void FailureDetector::Listen() {
  const int64_t now = clock_.NowNs();
  if (now < next_ns_) return;
  next_ns_ = now + kListenNs;
  for (size_t i = 0; i < cluster_.segments().size(); ++i) {
    const NetSegment& net = *cluster_.segments()[i].net;
    for (const NodeId node : net.metrics().peers()) {
      const uint64_t frames = net.metrics().peer(node).frames_in;
      if (frames == 0) continue;
      PeerActivity& activity = activity_[{i, node}];
      if (frames > activity.frames) activity.last_ns = now;
      activity.frames = frames;
      const int64_t timeout_ns = net.peer_timeout_ns();
      const bool silent = now - activity.last_ns >= timeout_ns;
      if (silent == std::exchange(activity.silent, silent)) continue;
      const bool left = std::exchange(activity.left, silent && HasLeft(node));
      const std::string name = StrCat("Node ", net.NameOf(node), " ");
      if (activity.left) {
        LOG(INFO) << name << "has left segment " << net.name();
      } else if (silent) {
        LOG(INFO) << name << "is unresponsive on segment " << net.name() << ": no frame for "
                  << static_cast<double>(timeout_ns) * 1e-9 << " s; the run goes on without it";
      } else {
        LOG(INFO) << name << (left ? "has returned to" : "is responsive again on") << " segment "
                  << net.name();
      }
    }
  }
}

bool FailureDetector::HasLeft(NodeId node) const {
  const auto ends = ReadGossip<RunEnd>(cluster_.Read(GossipKey::kEnd));
  const auto found = ends.find(node);
  return found != ends.end() && found->second.gone();
}

std::vector<NodeId> FailureDetector::ResponsivePeers(Recency recency) {
  Listen();
  const int64_t now = clock_.NowNs();
  std::vector<NodeId> nodes;
  for (const auto& [of, activity] : activity_) {
    if (activity.silent) continue;
    const NetSegment& net = *cluster_.segments()[of.first].net;
    if (recency == Recency::kLately && now - activity.last_ns >= LatelyNs(net)) continue;
    nodes.push_back(of.second);
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

}  // namespace millrace::inline cluster
