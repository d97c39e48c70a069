// Metrics of a segment. Its thread writes them; any thread reads them. Each number is exact, but
// two numbers need not be of the same instant.
#ifndef MILLRACE_SEGMENT_SEGMENT_METRICS_H_
#define MILLRACE_SEGMENT_SEGMENT_METRICS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/count.h"
#include "base/node_id.h"
#include "exchange/protocol/exchange_config.h"
#include "exchange/protocol/peer_metrics.h"
#include "segment/divergence.h"
#include "segment/gossip/gossip_message.h"
#include "segment/handshake/frame_filter.h"

namespace millrace {

class SegmentMetrics {
 public:
  // `exchange` outlives this object; `peers` are ascending and below its max_nodes.
  SegmentMetrics(const PeerMetrics* exchange, std::vector<NodeId> peers);

  // All nodes of the segment except this one, ascending; constant.
  std::span<const NodeId> peers() const { return peers_; }

  // Values of the last pass, not read as one atomic snapshot.
  ExchangeStats exchange() const {
    ExchangeStats stats;
    Visit(stats, slots_, [](uint64_t* value, const Count& slot) { *value = slot.Read(); });
    return stats;
  }
  // Sweeps over all chunks of the segment; see exchange/protocol/peer_metrics.h.
  double sweeps() const { return exchange_.sweeps(); }
  // Time from a diff to the position that acknowledges it, over all peers.
  DurationHistogram round_trip() const;
  // Traffic with one of peers().
  PeerStats peer(NodeId node) const { return exchange_.peer(node); }
  // Divergence of the replica from all its masters, or from one of peers(), as of the last sampling
  // round; rounds take about a second. All numbers are of the same round.
  Divergence divergence() const;
  Divergence divergence(NodeId node) const;

  // Frames that the filter dropped: for one reason, for all reasons, from one of peers().
  uint64_t filter_drops(FilterDrop drop) const {
    return filter_drops_[static_cast<size_t>(drop)].Read();
  }
  uint64_t filter_drops() const;
  uint64_t filter_drops_of(NodeId peer) const { return peer_filter_drops_[IndexOf(peer)].Read(); }
  // Dropped handshake messages: for one reason, for all reasons.
  uint64_t handshake_drops(HandshakeDrop drop) const {
    return handshake_drops_[static_cast<size_t>(drop)].Read();
  }
  uint64_t handshake_drops() const { return all_handshake_drops_.Read(); }
  // Dropped gossip frames, by reason.
  uint64_t gossip_drops(GossipDrop drop) const {
    return gossip_drops_[static_cast<size_t>(drop)].Read();
  }
  // All passes, and those that found no work.
  uint64_t passes() const { return passes_.Read(); }
  uint64_t idle_passes() const { return idle_passes_.Read(); }
  // Cluster iterations between two exchanges of a chunk, smoothed (staleness_watch.h).
  double staleness_iterations() const { return staleness_.load(std::memory_order_relaxed); }
  // Bytes put on the wire, as `max_mbps` counts them.
  uint64_t wire_bytes() const { return wire_bytes_.Read(); }
  // Pace::duty() and Pace::taken() of the segment's thread; 1 and 0 without a pace.
  double duty() const { return duty_.load(std::memory_order_relaxed); }
  double taken() const { return taken_.load(std::memory_order_relaxed); }

  // For the segment's thread only.
  void Publish(const ExchangeStats& stats) {
    Visit(stats, slots_, [](const uint64_t* value, Count& slot) { slot.Set(*value); });
  }
  void Publish(const FrameFilter& filter);
  // `peers` are in the order of peers().
  void Publish(const Divergence& all, std::span<const Divergence> peers);
  void Publish(const GossipDrops& drops) {
    for (size_t i = 0; i < drops.size(); ++i) gossip_drops_[i].Set(drops[i]);
  }
  void PublishStaleness(double iterations) {
    staleness_.store(iterations, std::memory_order_relaxed);
  }
  void Passed(bool idle) {
    passes_.Add();
    if (idle) idle_passes_.Add();
  }
  void AddWireBytes(uint64_t bytes) { wire_bytes_.Add(bytes); }
  void SetPace(double duty, double taken) {
    duty_.store(duty, std::memory_order_relaxed);
    taken_.store(taken, std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kDrops = static_cast<size_t>(Drop::kCount);
  static constexpr size_t kSlots = 16 + 16 + kDrops + 10;

  // Calls each(&number, slot) for every number in `stats`.
  template <typename Stats, typename Slots, typename Each>
  static void Visit(Stats& stats, Slots& slots, Each each) {
    size_t next = 0;
    for (auto& value : stats.sent) each(&value, slots[next++]);
    for (auto& value : stats.received) each(&value, slots[next++]);
    for (auto& value : stats.drops) each(&value, slots[next++]);
    for (auto* value : {&stats.bytes_sent, &stats.bytes_received, &stats.positions_taken,
                        &stats.diffs_taken, &stats.diffs_damped, &stats.diffs_merged,
                        &stats.resends, &stats.repeats, &stats.takeovers, &stats.resets}) {
      each(value, slots[next++]);
    }
  }
  size_t IndexOf(NodeId peer) const;
  void Publish(const HandshakeStats& stats);

  const PeerMetrics& exchange_;
  const std::vector<NodeId> peers_;
  std::array<Count, kSlots> slots_;
  std::array<Count, std::tuple_size_v<FilterDrops>> filter_drops_;
  std::array<Count, std::tuple_size_v<HandshakeDrops>> handshake_drops_;
  Count all_handshake_drops_;
  std::array<Count, std::tuple_size_v<GossipDrops>> gossip_drops_;
  std::vector<Count> peer_filter_drops_;  // by index in peers_
  Count passes_, idle_passes_, wire_bytes_;
  std::atomic<double> staleness_{0};
  std::atomic<double> duty_{1}, taken_{0};

  mutable std::mutex mutex_;
  Divergence divergence_;
  std::vector<Divergence> peer_divergence_;  // by index in peers_
};

// Dropped frames by name of the reason, including reasons that never occurred: of the exchange, the
// filter, the handshake and the transport.
std::vector<std::pair<std::string, uint64_t>> DropsOf(const SegmentMetrics& metrics,
                                                      const TransportCounters& counters);

// One line: traffic in both directions, and drops by reason.
std::string SummaryOf(const SegmentMetrics& metrics, const TransportCounters& counters);

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_SEGMENT_METRICS_H_
