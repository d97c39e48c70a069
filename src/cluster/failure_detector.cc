#include "cluster/failure_detector.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

// Interval between samples. A scan visits up to a thousand peers.
constexpr int64_t kListenNs = 100'000'000;
// Heartbeat intervals without a frame after which a peer is unresponsive. With default settings
// this equals the exchange's peer timeout.
constexpr int64_t kSilentHeartbeats = 20;

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
      PeerActivity& voice = activity_[{i, node}];
      if (frames > voice.frames) voice.last_ns = now;
      voice.frames = frames;
      const int64_t silence_ns = kSilentHeartbeats * net.heartbeat_ns();
      const bool unresponsive = now - voice.last_ns >= silence_ns;
      if (unresponsive == std::exchange(voice.unresponsive, unresponsive)) continue;
      if (unresponsive) {
        LOG(INFO) << "Node " << net.NameOf(node) << " has not been heard on segment " << net.name()
                  << " for " << static_cast<double>(silence_ns) * 1e-9
                  << " s; the run goes on without it";
      } else {
        LOG(INFO) << "Node " << net.NameOf(node) << " is heard again on segment " << net.name();
      }
    }
  }
}

std::vector<NodeId> FailureDetector::Heard(int64_t within_ns) {
  Listen();
  const int64_t now = clock_.NowNs();
  std::vector<NodeId> nodes;
  for (const auto& [of, voice] : activity_) {
    if (!voice.unresponsive && now - voice.last_ns < within_ns) nodes.push_back(of.second);
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

}  // namespace millrace
