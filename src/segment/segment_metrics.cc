#include "segment/segment_metrics.h"

#include <algorithm>

#include <glog/logging.h>

#include "base/error.h"
#include "base/sum.h"
#include "exchange/protocol/frame.h"

namespace millrace {
namespace {

// " name n" if there were any.
std::string Part(const std::string& name, uint64_t count) {
  return count == 0 ? "" : Cat(" ", name, " ", count);
}

}  // namespace

SegmentMeters::SegmentMeters(const PeerMeters* exchange, std::vector<NodeId> peers)
    : exchange_(*exchange),
      peers_(std::move(peers)),
      peer_gate_drops_(peers_.size()),
      peer_closeness_(peers_.size()) {}

size_t SegmentMeters::IndexOf(NodeId peer) const {
  const auto found = std::lower_bound(peers_.begin(), peers_.end(), peer);
  CHECK(found != peers_.end() && *found == peer) << "node " << peer << " is no peer";
  return static_cast<size_t>(found - peers_.begin());
}

DurationHistogram SegmentMeters::round_trip() const {
  DurationHistogram all;
  for (const NodeId peer : peers_) all += exchange_.peer(peer).round_trip;
  return all;
}

uint64_t SegmentMeters::gate_drops() const {
  uint64_t sum = 0;
  for (const Count& each : gate_drops_) sum += each.Read();
  return sum;
}

Closeness SegmentMeters::closeness() const {
  std::lock_guard lock(mutex_);
  return closeness_;
}

Closeness SegmentMeters::closeness(NodeId node) const {
  std::lock_guard lock(mutex_);
  return peer_closeness_[IndexOf(node)];
}

void SegmentMeters::Publish(const IntroductionStats& stats) {
  if (stats.refused == all_handshake_drops_.Read()) return;
  for (size_t i = 0; i < handshake_drops_.size(); ++i) handshake_drops_[i].Set(stats.received[i]);
  all_handshake_drops_.Set(stats.refused);
}

void SegmentMeters::Publish(const Gate& gate) {
  Publish(gate.introductions().stats());
  uint64_t before = 0, now = 0;
  for (size_t i = 0; i < gate_drops_.size(); ++i) {
    before += gate_drops_[i].Read();
    now += gate.drops()[i];
    gate_drops_[i].Set(gate.drops()[i]);
  }
  if (now == before) return;
  for (size_t i = 0; i < peers_.size(); ++i) peer_gate_drops_[i].Set(gate.drops_of(peers_[i]));
}

void SegmentMeters::Publish(const Closeness& all, std::span<const Closeness> peers) {
  std::lock_guard lock(mutex_);
  closeness_ = all;
  std::copy(peers.begin(), peers.end(), peer_closeness_.begin());
}

std::vector<std::pair<std::string, uint64_t>> DropsOf(const SegmentMeters& meters,
                                                      const TransportCounters& counters) {
  std::vector<std::pair<std::string, uint64_t>> drops;
  const ExchangeStats stats = meters.exchange();
  for (size_t i = 0; i < stats.drops.size(); ++i) {
    drops.emplace_back(DropName(static_cast<Drop>(i)), stats.drops[i]);
  }
  for (size_t i = 0; i < std::tuple_size_v<GateDrops>; ++i) {
    const auto drop = static_cast<GateDrop>(i);
    drops.emplace_back(GateDropName(drop), meters.gate_drops(drop));
  }
  // The first stands for none.
  for (size_t i = 1; i < std::tuple_size_v<IntroDrops>; ++i) {
    const auto drop = static_cast<IntroDrop>(i);
    drops.emplace_back(Cat("handshake_", IntroDropName(drop)), meters.handshake_drops(drop));
  }
  for (size_t i = 0; i < kDropReasons; ++i) {
    const auto reason = static_cast<DropReason>(i);
    drops.emplace_back(DropReasonName(reason), counters.dropped(reason));
  }
  return drops;
}

std::string SummaryOf(const SegmentMeters& meters, const TransportCounters& counters) {
  const ExchangeStats stats = meters.exchange();
  std::string dropped;
  for (const auto& [name, frames] : DropsOf(meters, counters)) dropped += Part(name, frames);
  for (size_t i = 1; i < std::tuple_size_v<BulletinDrops>; ++i) {
    const auto drop = static_cast<BulletinDrop>(i);
    dropped += Part(Cat("bulletin_", BulletinDropName(drop)), meters.bulletin_drops(drop));
  }
  return Cat(Sum(stats.sent), " frames out, ", Sum(stats.received), " in, ", stats.positions_taken,
             " positions taken, ", stats.diffs_taken, " differences sent (", stats.diffs_damped,
             " damped), ", stats.diffs_merged, " merged, ", stats.resends, " resent, ",
             stats.takeovers,
             " chunks taken over; dropped:", dropped.empty() ? " nothing" : dropped);
}

}  // namespace millrace
