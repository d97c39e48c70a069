#include "segment/segment_metrics.h"

#include <algorithm>

#include <glog/logging.h>

#include "base/error.h"
#include "base/sum.h"
#include "exchange/protocol/frame.h"

namespace millrace {
namespace {

// " name count"; "" if the count is 0.
std::string Part(const std::string& name, uint64_t count) {
  return count == 0 ? "" : StrCat(" ", name, " ", count);
}

}  // namespace

SegmentMetrics::SegmentMetrics(const PeerMetrics* exchange, std::vector<NodeId> peers)
    : exchange_(*exchange),
      peers_(std::move(peers)),
      peer_filter_drops_(peers_.size()),
      peer_divergence_(peers_.size()) {}

size_t SegmentMetrics::IndexOf(NodeId peer) const {
  const auto found = std::lower_bound(peers_.begin(), peers_.end(), peer);
  CHECK(found != peers_.end() && *found == peer) << "node " << peer << " is no peer";
  return static_cast<size_t>(found - peers_.begin());
}

DurationHistogram SegmentMetrics::round_trip() const {
  DurationHistogram all;
  for (const NodeId peer : peers_) all += exchange_.peer(peer).round_trip;
  return all;
}

uint64_t SegmentMetrics::filter_drops() const {
  uint64_t sum = 0;
  for (const Count& each : filter_drops_) sum += each.Read();
  return sum;
}

Divergence SegmentMetrics::divergence() const {
  std::lock_guard lock(mutex_);
  return divergence_;
}

Divergence SegmentMetrics::divergence(NodeId node) const {
  std::lock_guard lock(mutex_);
  return peer_divergence_[IndexOf(node)];
}

void SegmentMetrics::Publish(const HandshakeStats& stats) {
  if (stats.refused == all_handshake_drops_.Read()) return;
  for (size_t i = 0; i < handshake_drops_.size(); ++i) handshake_drops_[i].Set(stats.received[i]);
  all_handshake_drops_.Set(stats.refused);
}

void SegmentMetrics::Publish(const FrameFilter& filter) {
  Publish(filter.handshake().stats());
  uint64_t before = 0, now = 0;
  for (size_t i = 0; i < filter_drops_.size(); ++i) {
    before += filter_drops_[i].Read();
    now += filter.drops()[i];
    filter_drops_[i].Set(filter.drops()[i]);
  }
  if (now == before) return;
  for (size_t i = 0; i < peers_.size(); ++i) peer_filter_drops_[i].Set(filter.drops_of(peers_[i]));
}

void SegmentMetrics::Publish(const Divergence& all, std::span<const Divergence> peers) {
  std::lock_guard lock(mutex_);
  divergence_ = all;
  std::copy(peers.begin(), peers.end(), peer_divergence_.begin());
}

std::vector<std::pair<std::string, uint64_t>> DropsOf(const SegmentMetrics& metrics,
                                                      const TransportCounters& counters) {
  std::vector<std::pair<std::string, uint64_t>> drops;
  const ExchangeStats stats = metrics.exchange();
  for (size_t i = 0; i < stats.drops.size(); ++i) {
    drops.emplace_back(DropName(static_cast<Drop>(i)), stats.drops[i]);
  }
  for (size_t i = 0; i < std::tuple_size_v<FilterDrops>; ++i) {
    const auto drop = static_cast<FilterDrop>(i);
    drops.emplace_back(FilterDropName(drop), metrics.filter_drops(drop));
  }
  // Index 0 is kNone.
  for (size_t i = 1; i < std::tuple_size_v<HandshakeDrops>; ++i) {
    const auto drop = static_cast<HandshakeDrop>(i);
    drops.emplace_back(StrCat("handshake_", HandshakeDropName(drop)),
                       metrics.handshake_drops(drop));
  }
  for (size_t i = 0; i < kDropReasons; ++i) {
    const auto reason = static_cast<DropReason>(i);
    drops.emplace_back(DropReasonName(reason), counters.dropped(reason));
  }
  return drops;
}

std::string SummaryOf(const SegmentMetrics& metrics, const TransportCounters& counters) {
  const ExchangeStats stats = metrics.exchange();
  std::string dropped;
  for (const auto& [name, frames] : DropsOf(metrics, counters)) dropped += Part(name, frames);
  for (size_t i = 1; i < std::tuple_size_v<GossipDrops>; ++i) {
    const auto drop = static_cast<GossipDrop>(i);
    dropped += Part(StrCat("gossip_", GossipDropName(drop)), metrics.gossip_drops(drop));
  }
  return StrCat(Sum(stats.sent), " frames out, ", Sum(stats.received), " in, ",
                stats.positions_taken, " positions taken, ", stats.diffs_taken, " diffs sent (",
                stats.diffs_damped, " damped), ", stats.diffs_merged, " merged, ", stats.resends,
                " resent, ", stats.takeovers,
                " chunks taken over; dropped:", dropped.empty() ? " nothing" : dropped);
}

}  // namespace millrace
