#include "cluster/shard_takeover.h"

#include <glog/logging.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/node_bits.h"

namespace millrace::inline cluster {
namespace {

constexpr int64_t kPollNs = 100'000'000;

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

ShardTakeover::ShardTakeover(ClusterPeers* peers, std::vector<Reader> readers,
                             std::function<void(const std::vector<uint64_t>&)> apply,
                             const Clock* clock)
    : peers_(*peers),
      readers_(std::move(readers)),
      apply_(std::move(apply)),
      clock_(*clock),
      present_ns_(readers_.size(), clock->NowNs() + kStartNs - kMissingNs),
      absent_(readers_.size(), false) {
  CHECK_LT(peers_.self(), readers_.size());
}

std::vector<bool> ShardTakeover::PresentNodes() const {
  std::map<NodeId, std::string> responsive_of;
  for (const GossipMessage& gossip : peers_.Read(GossipKey::kPresence)) {
    responsive_of[gossip.node] = TextOf(gossip.bytes);
  }
  responsive_of[peers_.self()] = published_.value();
  std::vector<bool> present(readers_.size(), false);
  for (const NodeId node :
       ReachableNodes(peers_.self(), "", [&](NodeId of) { return responsive_of[of]; })) {
    if (node < present.size()) present[node] = true;
  }
  return present;
}

void ShardTakeover::Poll() {
  const int64_t now = clock_.NowNs();
  if (polled_ns_ && now - *polled_ns_ < kPollNs) return;
  // After a stall of its own, this node has no current information on the others.
  const bool stood_still = polled_ns_ && now - *polled_ns_ >= kMissingNs;
  const bool first = !polled_ns_;
  polled_ns_ = now;

  std::string bits = BitsOfNodes(peers_.ResponsivePeers(Recency::kInTime));
  if (bits != published_) {
    peers_.Publish(GossipKey::kPresence, std::as_bytes(std::span(bits)));
    published_ = std::move(bits);
  }
  const std::vector<bool> present = PresentNodes();
  std::vector<bool> absent(readers_.size());
  for (size_t node = 0; node < readers_.size(); ++node) {
    if (present[node]) present_ns_[node] = now;
    if (stood_still && !absent_[node]) present_ns_[node] = std::max(present_ns_[node], now);
    absent[node] = now - present_ns_[node] >= kMissingNs;
  }
  if (absent == absent_ && !first) return;
  Log(absent);
  absent_ = std::move(absent);
  std::vector<uint64_t> shards;
  for (size_t node = 0; node < readers_.size(); ++node) {
    if (absent_[node]) shards.push_back(readers_[node].shard);
  }
  std::sort(shards.begin(), shards.end());
  apply_(shards);
}

void ShardTakeover::Log(const std::vector<bool>& absent) const {
  const auto left = std::count(absent.begin(), absent.end(), false);
  for (size_t node = 0; node < readers_.size(); ++node) {
    if (absent[node] == absent_[node]) continue;
    const Reader& reader = readers_[node];
    if (absent[node]) {
      LOG(INFO) << "Node " << reader.name << " is gone: this node reads 1/" << left
                << " of its data shard " << reader.shard;
    } else {
      LOG(INFO) << "Node " << reader.name << " is there and reads its data shard " << reader.shard
                << " by itself again";
    }
  }
}

}  // namespace millrace::inline cluster
