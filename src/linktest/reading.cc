#include "linktest/reading.h"

#include "base/clock.h"
#include "base/error.h"
#include "exchange/protocol/frame.h"
#include "segment/segment_metrics.h"

namespace millrace::inline linktest {
namespace {

constexpr double kRestSeconds = 1, kMaxMovingSeconds = 10;

EndReading ReadEnd(const NetSegment& segment) {
  const SegmentMetrics& metrics = segment.metrics();
  const ExchangeStats stats = metrics.exchange();
  EndReading end;
  end.wire_bytes_out = metrics.wire_bytes();
  end.bytes_in = stats.bytes_received;
  for (size_t type = 0; type < static_cast<size_t>(FrameType::kHeartbeat); ++type) {
    end.moved += stats.sent[type] + stats.received[type];
  }
  end.sweeps = metrics.sweeps();
  for (const auto& [reason, frames] : DropsOf(metrics)) {
    end.drops[reason] = frames;
  }
  for (const NodeId peer : metrics.peers()) end.peers[peer] = metrics.peer(peer);
  return end;
}

float Seconds(int64_t ns) { return static_cast<float>(static_cast<double>(ns) * 1e-9); }
float Milliseconds(int64_t ns) { return static_cast<float>(static_cast<double>(ns) * 1e-6); }

void ReportPeer(NodeId node, const PeerStats& before, const PeerStats& begin, const PeerStats& end,
                const PeerStats& after, BenchPeer* peer) {
  peer->set_node(node);
  peer->set_frames_sent(end.frames_out - begin.frames_out);
  peer->set_bytes_sent(end.bytes_out - begin.bytes_out);
  peer->set_positions_taken(end.positions_taken - begin.positions_taken);
  peer->set_diffs_merged(end.diffs_merged - begin.diffs_merged);
  peer->set_resends(end.resends - begin.resends);
  peer->set_all_frames_sent(after.frames_out - before.frames_out);
  peer->set_all_frames_received(after.frames_in - before.frames_in);
  DurationHistogram round_trip = end.round_trip;
  round_trip -= begin.round_trip;
  peer->set_round_trip_ms_p50(Milliseconds(round_trip.Quantile(0.5)));
  peer->set_round_trip_ms_p99(Milliseconds(round_trip.Quantile(0.99)));
}

}  // namespace

uint64_t MetricsSnapshot::moved() const {
  uint64_t sum = 0;
  for (const EndReading& end : ends) sum += end.moved;
  return sum;
}

MetricsSnapshot ReadCounters(const Cluster& cluster) {
  MetricsSnapshot reading;
  reading.process_cpu_ns = PosixClockNs(CLOCK_PROCESS_CPUTIME_ID);
  for (size_t i = 0; i < cluster.segments().size(); ++i) {
    reading.ends.push_back(ReadEnd(*cluster.segments()[i].net));
    reading.ends.back().thread_cpu_ns = cluster.segment_cpu_ns(i);
  }
  return reading;
}

BenchReport ReportOf(const std::vector<EndFacts>& facts, const MetricsSnapshot& before,
                     const MetricsSnapshot& begin, const MetricsSnapshot& end,
                     const MetricsSnapshot& after) {
  BenchReport report;
  report.set_seconds(Seconds(end.at_ns - begin.at_ns));
  report.set_process_cpu_seconds(Seconds(end.process_cpu_ns - begin.process_cpu_ns));
  report.set_load_cpu_seconds(Seconds(end.load_cpu_ns - begin.load_cpu_ns));
  for (size_t i = 0; i < facts.size(); ++i) {
    const EndReading &first = before.ends[i], &from = begin.ends[i], &to = end.ends[i],
                     &last = after.ends[i];
    BenchEnd* out = report.add_end();
    out->set_segment(facts[i].segment);
    out->set_chunk_weights(facts[i].chunk_weights);
    out->set_link_megabits(facts[i].link_megabits);
    out->set_wire_bytes_out(to.wire_bytes_out - from.wire_bytes_out);
    out->set_bytes_in(to.bytes_in - from.bytes_in);
    out->set_sweeps(static_cast<float>(to.sweeps - from.sweeps));
    out->set_thread_cpu_seconds(Seconds(to.thread_cpu_ns - from.thread_cpu_ns));
    for (const auto& [reason, frames] : last.drops) {
      const uint64_t dropped = frames - first.drops.at(reason);
      if (dropped == 0) continue;
      BenchDrop* drop = out->add_drop();
      drop->set_reason(reason);
      drop->set_frames(dropped);
    }
    for (const auto& [node, peer] : last.peers) {
      ReportPeer(node, first.peers.at(node), from.peers.at(node), to.peers.at(node), peer,
                 out->add_peer());
    }
  }
  return report;
}

bool QuiescenceDetector::IsQuiescent(uint64_t moved, double now_seconds) {
  if (!started_ || moved != moved_) {
    if (!started_) moving_since_ = now_seconds;
    started_ = true;
    moved_ = moved;
    changed_ = now_seconds;
  }
  if (now_seconds - changed_ >= kRestSeconds) {
    moving_since_ = now_seconds;
    return true;
  }
  return now_seconds - moving_since_ >= kMaxMovingSeconds;
}

}  // namespace millrace::inline linktest
