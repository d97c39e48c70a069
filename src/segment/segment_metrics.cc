#include "segment/segment_metrics.h"

#include <numeric>

#include "base/error.h"
#include "base/text/names.h"

namespace millrace::inline segment {
namespace {

// Descriptions of published counters, with the members that have their values.
template <typename Stats>
struct CounterRow {
  const char *name, *help, *unit;
  uint64_t Stats::*member;
};

constexpr CounterRow<ExchangeStats> kExchangeCounters[] = {
    {"sent_bytes_total", "Bytes of the exchange's frames sent.", "bytes",
     &ExchangeStats::bytes_sent},
    {"received_bytes_total", "Bytes of frames received.", "bytes", &ExchangeStats::bytes_received},
    {"positions_taken_total", "Positions of chunks taken from their masters.", "",
     &ExchangeStats::positions_taken},
    {"takeover_states_taken_total", "Newer positions received in takeovers.", "",
     &ExchangeStats::takeover_states_taken},
    {"diffs_sent_total", "Diffs made here, each counted once.", "", &ExchangeStats::diffs_taken},
    {"diffs_damped_total", "Of these, diffs with a share of the progress, as exchanges were stale.",
     "", &ExchangeStats::diffs_damped},
    {"diffs_merged_total", "Diffs of other nodes merged here.", "", &ExchangeStats::diffs_merged},
    {"resends_total", "Diffs sent again because no position acknowledged them in time.", "",
     &ExchangeStats::resends},
    {"repeats_total", "Positions sent again with unchanged content.", "", &ExchangeStats::repeats},
    {"takeovers_total", "Chunks of which this node has become the master.", "",
     &ExchangeStats::takeovers},
    {"resets_total", "Times that this node joined again as a new incarnation.", "",
     &ExchangeStats::resets},
};

constexpr CounterRow<PeerCounts> kPeerCounters[] = {
    {"frames_sent_total", "Frames to the peer; a multicast counts for each peer.", "",
     &PeerCounts::frames_out},
    {"frames_received_total", "Intact frames of the peer, also those dropped later.", "",
     &PeerCounts::frames_in},
    {"sent_bytes_total", "Bytes of frames to the peer.", "bytes", &PeerCounts::bytes_out},
    {"received_bytes_total", "Bytes of frames of the peer.", "bytes", &PeerCounts::bytes_in},
    {"positions_taken_total", "Positions taken of chunks that the peer masters.", "",
     &PeerCounts::positions_taken},
    {"diffs_sent_total", "Diffs to the peer, each counted once.", "", &PeerCounts::diffs_sent},
    {"diffs_merged_total", "Diffs of the peer merged here.", "", &PeerCounts::diffs_merged},
    {"resends_total", "Diffs to the peer sent again.", "", &PeerCounts::resends},
};

constexpr double kSeconds = 1e-9;  // per ns

constexpr struct {
  const char *name, *help, *unit;
  double (*value)(const Divergence&);
} kDivergenceGauges[] = {
    {"age_p50_seconds", "Age of the newest position of a chunk: median of the last sample.",
     "seconds", [](const Divergence& d) { return static_cast<double>(d.age_p50_ns) * kSeconds; }},
    {"age_max_seconds", "Age of the newest position of a chunk: maximum of the last sample.",
     "seconds", [](const Divergence& d) { return static_cast<double>(d.age_max_ns) * kSeconds; }},
    {"age_iterations", "Iterations of all nodes within the median age.", "",
     [](const Divergence& d) { return d.age_iterations; }},
    {"distance_rms", "Difference between weights and the positions last taken: root mean square.",
     "", [](const Divergence& d) { return d.distance_rms; }},
    {"distance_max", "Difference between weights and the positions last taken: largest.", "",
     [](const Divergence& d) { return d.distance_max; }},
    {"round_trip_p50_seconds",
     "Time from a diff to its acknowledgement: median of the last sample.", "seconds",
     [](const Divergence& d) { return static_cast<double>(d.round_trip_p50_ns) * kSeconds; }},
    {"round_trip_p99_seconds",
     "Time from a diff to its acknowledgement: 99th percentile of the last sample.", "seconds",
     [](const Divergence& d) { return static_cast<double>(d.round_trip_p99_ns) * kSeconds; }},
};

template <typename Stats, size_t kRows>
std::vector<PublishedCounter<Stats>> Add(const CounterRow<Stats> (&rows)[kRows],
                                         const MetricScope& scope) {
  std::vector<PublishedCounter<Stats>> counters;
  for (const auto& row : rows) {
    counters.push_back({row.member, scope.AddCounter({row.name, row.help, row.unit})});
  }
  return counters;
}

template <typename Stats>
void SetAll(const std::vector<PublishedCounter<Stats>>& counters, const Stats& stats) {
  for (const auto& [member, counter] : counters) counter->Set(stats.*member);
}

std::vector<DivergenceGauge> AddDivergence(const MetricScope& scope) {
  std::vector<DivergenceGauge> gauges;
  for (const auto& row : kDivergenceGauges) {
    gauges.push_back({row.value, scope.AddGauge({row.name, row.help, row.unit})});
  }
  return gauges;
}

void SetAll(const std::vector<DivergenceGauge>& gauges, const Divergence& divergence) {
  for (const auto& [value, gauge] : gauges) gauge->Set(value(divergence));
}

uint64_t Sum(const std::array<uint64_t, kFrameTypes>& frames) {
  return std::accumulate(frames.begin(), frames.end(), uint64_t{0});
}

}  // namespace

SegmentMetrics::SegmentMetrics(MetricsRegistry* registry, const std::string& segment,
                               const PeerMetrics* exchange, std::vector<NodeId> peers,
                               std::span<const std::string> names)
    : registry_(*registry), exchange_(*exchange), peers_(std::move(peers)) {
  AddSegment(MetricScope(registry, "segment", {{"segment", segment}}));
  for (const NodeId node : peers_) {
    if (registry->room() < MetricsRegistry::kCapacity / 2) break;
    const std::string name = NameAt(names, node);
    AddPeer(MetricScope(registry, "peer", {{"segment", segment}, {"peer", name}}), node);
  }
}

void SegmentMetrics::AddSegment(const MetricScope& scope) {
  members_ = scope.AddGauge({"members", "Members of the view, this node included."});
  in_sync_ = scope.AddGauge({"in_sync", "1 if this node has the weights of the run, else 0."});
  is_leader_ = scope.AddGauge({"is_leader", "1 if this node tests and saves, else 0."});
  const auto by_type = [&scope](const MetricInfo& info, std::array<Counter*, kFrameTypes>* to) {
    for (size_t i = 1; i < kFrameTypes; ++i) {
      (*to)[i] = scope.AddCounter(info, {{"type", FrameTypeName(static_cast<FrameType>(i))}});
    }
  };
  by_type({"frames_sent_total", "Frames of the exchange sent; a multicast is one."}, &sent_);
  by_type({"frames_received_total", "Frames of the exchange accepted."}, &received_);
  wire_bytes_ = scope.AddCounter(
      {"wire_sent_bytes_total", "Bytes sent on the wire with all headers.", "bytes"});
  exchange_counters_ = Add(kExchangeCounters, scope);
  sweeps_ = scope.AddFractionalCounter(
      {"sweeps_total", "Times that every chunk was exchanged, with a fraction."});
  staleness_ = scope.AddGauge(
      {"staleness_iterations", "Iterations of the cluster between two exchanges of a chunk."});
  for (size_t i = 0; i < kDropComponents; ++i) {
    const auto component = static_cast<DropComponent>(i);
    for (const DropReason reason : DropReasonsOf(component)) {
      Counter* const counter = scope.AddCounter(
          {"frames_dropped_total", "Frames dropped or refused, by reason."},
          {{"component", DropComponentName(component)}, {"reason", DropReasonName(reason)}});
      drops_[i].counters.emplace_back(reason, counter);
    }
  }
  busy_ = scope.AddCounter({"busy_total", "Sends for which the transport had no room."});
  duty_ = scope.AddGauge({"duty", "Share of a processor that the segment's thread may use."});
  taken_ = scope.AddGauge({"solver_share", "Share of the solvers' time that the segment took."});
  passes_ = scope.AddCounter({"passes_total", "Passes of the segment's thread."});
  idle_passes_ = scope.AddCounter({"idle_passes_total", "Passes that found nothing to do."});
  divergence_ = AddDivergence(scope);
  duty_->Set(1);
}

void SegmentMetrics::AddPeer(const MetricScope& scope, NodeId node) {
  const auto dropped = [&scope](DropComponent component) {
    return scope.AddCounter({"frames_dropped_total", "Frames of the peer that were dropped."},
                            {{"component", DropComponentName(component)}});
  };
  peer_metrics_.push_back(
      {.node = node,
       .counters = Add(kPeerCounters, scope),
       .sweeps = scope.AddFractionalCounter(
           {"sweeps_total", "Times that a position of every chunk of the peer was taken."}),
       .dropped_exchange = dropped(DropComponent::kExchange),
       .dropped_filter = dropped(DropComponent::kFilter),
       .divergence = AddDivergence(scope)});
}

ExchangeStats SegmentMetrics::exchange() const {
  ExchangeStats stats;
  for (const auto& [member, counter] : exchange_counters_) stats.*member = counter->Read();
  for (size_t i = 1; i < kFrameTypes; ++i) {
    stats.sent[i] = sent_[i]->Read();
    stats.received[i] = received_[i]->Read();
  }
  for (const auto& [reason, counter] : of(DropComponent::kExchange).counters) {
    stats.drops.Add(reason, counter->Read());
  }
  return stats;
}

DurationHistogram SegmentMetrics::round_trip() const {
  DurationHistogram all;
  for (const NodeId peer : peers_) all += exchange_.peer(peer).round_trip;
  return all;
}

uint64_t SegmentMetrics::dropped(DropComponent component) const {
  uint64_t sum = 0;
  for (const auto& [reason, counter] : of(component).counters) sum += counter->Read();
  return sum;
}

uint64_t SegmentMetrics::dropped(DropComponent component, DropReason reason) const {
  for (const auto& [each, counter] : of(component).counters) {
    if (each == reason) return counter->Read();
  }
  return 0;
}

// Returns whether frames were dropped since the last call. Otherwise it costs one comparison.
template <typename Counts>
bool SegmentMetrics::PublishDrops(DropComponent component, const Counts& counts) {
  Drops& drops = drops_[static_cast<size_t>(component)];
  if (counts.total() == drops.published) return false;
  drops.published = counts.total();
  for (const auto& [reason, counter] : drops.counters) counter->Set(counts[reason]);
  return true;
}

void SegmentMetrics::Publish(const ExchangeStats& stats) {
  SetAll(exchange_counters_, stats);
  for (size_t i = 1; i < kFrameTypes; ++i) {
    sent_[i]->Set(stats.sent[i]);
    received_[i]->Set(stats.received[i]);
  }
  PublishDrops(DropComponent::kExchange, stats.drops);
  sweeps_->Set(exchange_.sweeps());
}

void SegmentMetrics::Publish(const FrameFilter& filter) {
  PublishDrops(DropComponent::kHandshake, filter.handshake().stats().received);
  if (!PublishDrops(DropComponent::kFilter, filter.drops())) return;
  for (Peer& peer : peer_metrics_) peer.dropped_filter->Set(filter.drops_of(peer.node));
}

void SegmentMetrics::Publish(const TransportCounters& transport) {
  PublishDrops(DropComponent::kTransport, transport.drops());
  busy_->Set(transport.busy());
}

void SegmentMetrics::PublishGossip(const DropCounts& drops) {
  PublishDrops(DropComponent::kGossip, drops);
}

void SegmentMetrics::PublishPeers() {
  for (Peer& peer : peer_metrics_) {
    const PeerCounts counts = exchange_.counts(peer.node);
    SetAll(peer.counters, counts);
    peer.sweeps->Set(counts.sweeps);
    peer.dropped_exchange->Set(counts.drops.total());
  }
}

void SegmentMetrics::Publish(const Divergence& all, std::span<const Divergence> peers) {
  SetAll(divergence_, all);
  for (size_t i = 0; i < peer_metrics_.size(); ++i) SetAll(peer_metrics_[i].divergence, peers[i]);
}

void SegmentMetrics::PublishMembership(uint32_t members, bool in_sync, bool is_leader) {
  members_->Set(members);
  in_sync_->Set(in_sync);
  is_leader_->Set(is_leader);
}

void SegmentMetrics::PublishPace(double duty, double taken) {
  duty_->Set(duty);
  taken_->Set(taken);
}

void SegmentMetrics::Passed(bool idle) {
  passes_->Add();
  if (idle) idle_passes_->Add();
}

std::vector<std::pair<std::string, uint64_t>> DropsOf(const SegmentMetrics& metrics) {
  std::vector<std::pair<std::string, uint64_t>> drops;
  for (size_t i = 0; i < kDropComponents; ++i) {
    const auto component = static_cast<DropComponent>(i);
    // Their reasons have the same names as those of frames.
    const bool named =
        component == DropComponent::kHandshake || component == DropComponent::kGossip;
    const std::string prefix = named ? StrCat(DropComponentName(component), "_") : "";
    for (const DropReason reason : DropReasonsOf(component)) {
      drops.emplace_back(prefix + DropReasonName(reason), metrics.dropped(component, reason));
    }
  }
  return drops;
}

std::string SummaryOf(const SegmentMetrics& metrics) {
  const ExchangeStats stats = metrics.exchange();
  std::string dropped;
  for (const auto& [name, frames] : DropsOf(metrics)) {
    if (frames > 0) dropped += StrCat(" ", name, " ", frames);
  }
  return StrCat(Sum(stats.sent), " frames out, ", Sum(stats.received), " in, ",
                stats.positions_taken, " positions taken, ", stats.diffs_taken, " diffs sent (",
                stats.diffs_damped, " damped), ", stats.diffs_merged, " merged, ", stats.resends,
                " resent, ", stats.takeovers,
                " chunks taken over; dropped:", dropped.empty() ? " nothing" : dropped);
}

}  // namespace millrace::inline segment
