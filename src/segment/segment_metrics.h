// The metrics of a segment, in a registry (millrace/metrics.h). The segment's thread writes them;
// any thread reads them. Each number is exact, but two numbers need not be of the same instant.
//
// The parts of the segment count in structs of their own, which tests and simulations use without a
// registry. This class alone gives these counters their names; docs/operations.md lists them.
#ifndef MILLRACE_SEGMENT_SEGMENT_METRICS_H_
#define MILLRACE_SEGMENT_SEGMENT_METRICS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/drop_reason.h"
#include "exchange/protocol/exchange_config.h"
#include "exchange/protocol/peer_metrics.h"
#include "metrics/registry.h"
#include "millrace/node_id.h"
#include "millrace/transport_counters.h"
#include "segment/divergence.h"
#include "segment/handshake/frame_filter.h"

namespace millrace::inline segment {

// Published numbers, and where their values come from.
template <typename Stats>
struct PublishedCounter {
  uint64_t Stats::*member;
  Counter* counter;
};

struct DivergenceGauge {
  double (*value)(const Divergence&);
  Gauge* gauge;
};

class SegmentMetrics {
 public:
  // Adds the metrics to `registry`, with the label segment="`segment`". `peers` are ascending and
  // below max_nodes of `exchange`; `names` are those of the nodes, by id. While the registry is
  // more than half full, it gets no metrics of single peers. `registry` and `exchange` outlive this
  // object. Throws Error if the registry refuses a metric.
  SegmentMetrics(MetricsRegistry* registry, const std::string& segment, const PeerMetrics* exchange,
                 std::vector<NodeId> peers, std::span<const std::string> names);

  const MetricsRegistry& registry() const { return registry_; }
  // All nodes of the segment except this one, ascending; constant.
  std::span<const NodeId> peers() const { return peers_; }

  // Values of the last pass, not read as one atomic snapshot.
  ExchangeStats exchange() const;
  // Sweeps over all chunks of the segment; see exchange/protocol/peer_metrics.h.
  double sweeps() const { return exchange_.sweeps(); }
  // Time from a diff to the position that acknowledges it, over all peers.
  DurationHistogram round_trip() const;
  // Traffic with one of peers().
  PeerStats peer(NodeId node) const { return exchange_.peer(node); }
  // Dropped frames, and handshake messages without effect, as of the last pass.
  uint64_t dropped(DropComponent component) const;
  uint64_t dropped(DropComponent component, DropReason reason) const;
  // Bytes put on the wire, as `max_mbps` counts them.
  uint64_t wire_bytes() const { return wire_bytes_->Read(); }

  // For the segment's thread only.
  void Publish(const ExchangeStats& stats);
  void Publish(const FrameFilter& filter);
  void Publish(const TransportCounters& transport);
  void PublishGossip(const DropCounts& drops);
  // Traffic with each peer, from the exchange. Costs some nanoseconds for each peer.
  void PublishPeers();
  // `peers` are in the order of peers().
  void Publish(const Divergence& all, std::span<const Divergence> peers);
  // Cluster iterations between two exchanges of a chunk, smoothed (staleness_watch.h).
  void PublishStaleness(double iterations) { staleness_->Set(iterations); }
  void PublishMembership(uint32_t members, bool in_sync, bool is_leader);
  // Pace::duty() and Pace::taken() of the segment's thread; 1 and 0 without a pace.
  void PublishPace(double duty, double taken);
  void Passed(bool idle);
  void AddWireBytes(uint64_t bytes) { wire_bytes_->Add(bytes); }

 private:
  // Counters of one component, by its reasons.
  struct Drops {
    std::vector<std::pair<DropReason, Counter*>> counters;
    uint64_t published = 0;  // sum as of the last change
  };
  struct Peer {
    NodeId node;
    std::vector<PublishedCounter<PeerCounts>> counters;
    Gauge* sweeps;
    Counter *dropped_exchange, *dropped_filter;
    std::vector<DivergenceGauge> divergence;
  };

  const Drops& of(DropComponent component) const { return drops_[static_cast<size_t>(component)]; }
  template <typename Counts>
  bool PublishDrops(DropComponent component, const Counts& counts);
  void AddSegment(const MetricScope& scope);
  void AddPeer(const MetricScope& scope, NodeId node);

  const MetricsRegistry& registry_;
  const PeerMetrics& exchange_;
  const std::vector<NodeId> peers_;

  std::vector<PublishedCounter<ExchangeStats>> exchange_counters_;
  std::array<Counter*, kFrameTypes> sent_{}, received_{};  // by FrameType; null for no type
  std::array<Drops, kDropComponents> drops_;               // by DropComponent
  Counter *wire_bytes_, *passes_, *idle_passes_, *busy_;
  Gauge *sweeps_, *members_, *in_sync_, *is_leader_, *staleness_, *duty_, *taken_;
  std::vector<DivergenceGauge> divergence_;
  std::vector<Peer> peer_metrics_;  // of the first of peers_
};

// Dropped frames by name of the reason, including reasons that never occurred: of the exchange, the
// filter and the transport; "handshake_REASON" and "gossip_REASON" of the handshake and of gossip.
std::vector<std::pair<std::string, uint64_t>> DropsOf(const SegmentMetrics& metrics);

// One line: traffic in both directions, and drops by reason.
std::string SummaryOf(const SegmentMetrics& metrics);

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_SEGMENT_METRICS_H_
