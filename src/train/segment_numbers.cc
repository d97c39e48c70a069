#include "train/segment_numbers.h"

#include <array>
#include <string>
#include <tuple>

#include "base/error.h"
#include "base/sum.h"

namespace millrace {
namespace {

class List {
 public:
  template <typename Number>
  void Count(const char* name, Number value) {
    metrics_.push_back({name, CounterEntry::Kind::kCount, static_cast<double>(value)});
  }
  template <typename Number>
  void Gauge(const char* name, Number value) {
    metrics_.push_back({name, CounterEntry::Kind::kGauge, static_cast<double>(value)});
  }
  // Adds the divergence metrics, with the same names for a segment and for a peer.
  void Add(const Divergence& found) {
    constexpr double kMs = 1e-6;
    Gauge("age_p50_ms", static_cast<double>(found.age_p50_ns) * kMs);
    Gauge("age_max_ms", static_cast<double>(found.age_max_ns) * kMs);
    Gauge("age_iterations", found.age_iterations);
    Gauge("distance_rms", found.distance_rms);
    Gauge("distance_max", found.distance_max);
    Gauge("round_trip_p50_ms", static_cast<double>(found.round_trip_p50_ns) * kMs);
    Gauge("round_trip_p99_ms", static_cast<double>(found.round_trip_p99_ns) * kMs);
  }
  std::vector<Metric> Take() { return std::move(metrics_); }

 private:
  std::vector<Metric> metrics_;
};

// For example "handshake_tag". The text has static storage.
const char* HandshakeCounter(HandshakeDrop drop) {
  static const auto names = [] {
    std::array<std::string, std::tuple_size_v<HandshakeDrops>> all;
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = StrCat("handshake_", HandshakeDropName(static_cast<HandshakeDrop>(i)));
    }
    return all;
  }();
  return names[static_cast<size_t>(drop)].c_str();
}

}  // namespace

std::vector<Metric> MetricsOf(const NetSegment& segment) {
  const SegmentState& state = segment.state();
  const SegmentMetrics& metrics = segment.metrics();
  const TransportCounters& transport = segment.transport().counters();
  const ExchangeStats stats = metrics.exchange();
  List list;
  list.Gauge("members", state.members());
  list.Gauge("in_sync", state.in_sync());
  list.Gauge("is_leader", state.is_leader());
  list.Count("frames_out", Sum(stats.sent));
  list.Count("frames_in", Sum(stats.received));
  list.Count("wire_bytes_out", metrics.wire_bytes());
  list.Count("bytes_in", stats.bytes_received);
  list.Count("positions_taken", stats.positions_taken);
  list.Count("diffs_sent", stats.diffs_taken);
  list.Count("diffs_damped", stats.diffs_damped);
  list.Gauge("staleness_iterations", metrics.staleness_iterations());
  list.Count("diffs_merged", stats.diffs_merged);
  list.Count("resends", stats.resends);
  list.Count("sweeps", metrics.sweeps());
  list.Count("takeovers", stats.takeovers);
  list.Count("dropped_exchange", Sum(stats.drops));
  list.Count("dropped_filter", metrics.filter_drops());
  list.Count("dropped_handshake", metrics.handshake_drops());
  for (size_t i = 1; i < std::tuple_size_v<HandshakeDrops>; ++i) {  // index 0 is kNone
    const auto drop = static_cast<HandshakeDrop>(i);
    list.Count(HandshakeCounter(drop), metrics.handshake_drops(drop));
  }
  list.Count("dropped_transport", transport.dropped());
  list.Count("overruns", transport.dropped(DropReason::kOverrun));
  list.Count("bad_checksum", transport.dropped(DropReason::kBadChecksum));
  list.Count("malformed", transport.dropped(DropReason::kMalformed));
  list.Count("busy", transport.busy());
  list.Gauge("duty", metrics.duty());
  list.Gauge("solver_share", metrics.taken());
  list.Count("passes", metrics.passes());
  list.Count("idle_passes", metrics.idle_passes());
  list.Add(metrics.divergence());
  return list.Take();
}

std::vector<Metric> MetricsOf(const NetSegment& segment, NodeId peer) {
  const SegmentMetrics& metrics = segment.metrics();
  const PeerStats stats = metrics.peer(peer);
  List list;
  list.Count("frames_out", stats.frames_out);
  list.Count("frames_in", stats.frames_in);
  list.Count("bytes_out", stats.bytes_out);
  list.Count("bytes_in", stats.bytes_in);
  list.Count("positions_taken", stats.positions_taken);
  list.Count("diffs_sent", stats.diffs_sent);
  list.Count("diffs_merged", stats.diffs_merged);
  list.Count("resends", stats.resends);
  list.Count("sweeps", stats.sweeps);
  list.Count("dropped_exchange", stats.dropped());
  list.Count("dropped_filter", metrics.filter_drops_of(peer));
  list.Add(metrics.divergence(peer));
  return list.Take();
}

}  // namespace millrace
