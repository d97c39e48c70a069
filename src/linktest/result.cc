#include "linktest/result.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <set>

#include "base/error.h"
#include "exchange/kernels/codec_config.h"

namespace millrace::inline linktest {
namespace {

constexpr double kMega = 1e6, kGiga = 1e9;
constexpr int kMaxDrops = 100;
constexpr size_t kMaxReasonBytes = 40;

bool AreAmounts(std::initializer_list<double> values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value) && value >= 0; });
}

bool IsReason(const std::string& text) {
  return !text.empty() && text.size() <= kMaxReasonBytes &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

bool PeerFits(const BenchPeer& peer, NodeId node, const TopologySegment& segment) {
  return peer.node() < segment.max_nodes() && peer.node() != node &&
         segment.Joins(static_cast<NodeId>(peer.node())) &&
         AreAmounts({peer.round_trip_ms_p50(), peer.round_trip_ms_p99()});
}

bool EndFits(const BenchEnd& end, NodeId node, const Topology& topology) {
  if (end.segment() >= topology.segments.size() || end.chunk_weights() == 0) return false;
  const TopologySegment& segment = topology.segments[end.segment()];
  if (!segment.Joins(node) || !AreAmounts({end.sweeps(), end.thread_cpu_seconds()})) return false;
  std::set<uint32_t> peers;
  for (const BenchPeer& peer : end.peer()) {
    if (!PeerFits(peer, node, segment) || !peers.insert(peer.node()).second) return false;
  }
  return end.drop_size() <= kMaxDrops &&
         std::all_of(end.drop().begin(), end.drop().end(),
                     [](const BenchDrop& drop) { return IsReason(drop.reason()); });
}

const BenchEnd* FindEnd(const Measurement& measurement, NodeId node, size_t segment) {
  const auto report = measurement.reports.find(node);
  if (report == measurement.reports.end()) return nullptr;
  for (const BenchEnd& end : report->second.end()) {
    if (end.segment() == segment) return &end;
  }
  return nullptr;
}

const BenchPeer* FindPeer(const BenchEnd* end, NodeId peer) {
  if (end == nullptr) return nullptr;
  for (const BenchPeer& each : end->peer()) {
    if (each.node() == peer) return &each;
  }
  return nullptr;
}

// Rate over the time that the node measured; 0 if that is 0.
double PerSecond(double amount, const BenchReport& report) {
  return report.seconds() > 0 ? amount / report.seconds() : 0;
}

double PerGigabyte(double amount, double bytes) { return bytes > 0 ? amount / (bytes / kGiga) : 0; }

class SegmentSummer {
 public:
  SegmentSummer(const Topology& topology, const Measurement& measurement, size_t index)
      : topology_(topology),
        measurement_(measurement),
        index_(index),
        segment_(topology.segments[index]) {}

  // Returns false if no participant reports this segment.
  bool Sum(BenchSegmentResult* result) {
    for (const NodeId node : measurement_.participants) {
      if (const BenchEnd* end = FindEnd(measurement_, node, index_)) SetChunks(*end, result);
      if (segment_.Joins(node)) nodes_.push_back(node);
    }
    if (chunks_ == 0) return false;
    result->set_name(segment_.name);
    result->set_transport(segment_.transport);
    result->set_codec(CodecName(segment_.codec));
    result->set_mtu(segment_.mtu);
    result->set_max_mbps(segment_.max_megabits);
    for (const NodeId from : nodes_) {
      for (const NodeId to : nodes_) {
        if (from != to) AddFlow(from, to, result);
      }
    }
    for (const NodeId node : nodes_) AddEnd(node, result);
    return true;
  }

 private:
  void SetChunks(const BenchEnd& end, BenchSegmentResult* result) {
    const int64_t weights = RangeOf(segment_, measurement_.weights).size();
    const int64_t most = end.chunk_weights();
    chunks_ = (weights + most - 1) / most;
    chunk_bytes_ =
        chunks_ == 0 ? 0 : 4.0 * static_cast<double>(weights) / static_cast<double>(chunks_);
    result->set_chunks(static_cast<uint32_t>(chunks_));
    result->set_chunk_weights(end.chunk_weights());
  }

  void AddFlow(NodeId from, NodeId to, BenchSegmentResult* result) {
    const BenchPeer* sender = FindPeer(FindEnd(measurement_, from, index_), to);
    const BenchPeer* receiver = FindPeer(FindEnd(measurement_, to, index_), from);
    if (sender == nullptr && receiver == nullptr) return;
    BenchFlow* flow = result->add_flow();
    flow->set_from(topology_.nodes[from].name);
    flow->set_to(topology_.nodes[to].name);
    if (sender != nullptr) {
      const BenchReport& report = measurement_.reports.at(from);
      flow->set_frames(PerSecond(static_cast<double>(sender->frames_sent()), report));
      flow->set_frame_megabytes(
          PerSecond(static_cast<double>(sender->bytes_sent()) / kMega, report));
      flow->set_resends(PerSecond(static_cast<double>(sender->resends()), report));
      flow->set_all_frames_sent(static_cast<double>(sender->all_frames_sent()));
      if (sender->round_trip_ms_p99() > 0) {
        flow->set_round_trip_ms_p50(sender->round_trip_ms_p50());
        flow->set_round_trip_ms_p99(sender->round_trip_ms_p99());
      }
    }
    if (receiver != nullptr) {
      const BenchReport& report = measurement_.reports.at(to);
      const double megabytes = chunk_bytes_ / kMega;
      flow->set_position_megabytes(
          PerSecond(static_cast<double>(receiver->positions_taken()) * megabytes, report));
      flow->set_difference_megabytes(
          PerSecond(static_cast<double>(receiver->diffs_merged()) * megabytes, report));
      flow->set_all_frames_received(static_cast<double>(receiver->all_frames_received()));
    }
    if (flow->all_frames_sent() > 0 && receiver != nullptr) {
      flow->set_loss(std::max(0.0, 1 - flow->all_frames_received() / flow->all_frames_sent()));
    }
  }

  void AddEnd(NodeId node, BenchSegmentResult* result) {
    const BenchEnd* end = FindEnd(measurement_, node, index_);
    if (end == nullptr) return;
    const BenchReport& report = measurement_.reports.at(node);
    const auto out = static_cast<double>(end->wire_bytes_out());
    const auto in = static_cast<double>(end->bytes_in());
    BenchEndResult* to = result->add_end();
    to->set_node(topology_.nodes[node].name);
    to->set_wire_megabytes_out(PerSecond(out / kMega, report));
    to->set_megabytes_in(PerSecond(in / kMega, report));
    SetLimit(*end, to);
    to->set_sweeps(PerSecond(end->sweeps(), report));
    to->set_thread_cpu(PerSecond(end->thread_cpu_seconds(), report));
    to->set_thread_cpu_seconds_per_gigabyte(PerGigabyte(end->thread_cpu_seconds(), out + in));
    for (const BenchDrop& drop : end->drop()) {
      BenchDropResult* copy = to->add_drop();
      copy->set_reason(drop.reason());
      copy->set_frames(static_cast<double>(drop.frames()));
    }
  }

  void SetLimit(const BenchEnd& end, BenchEndResult* to) const {
    const double link = end.link_megabits(), pace = segment_.max_megabits;
    const bool paced = pace > 0 && (link <= 0 || pace <= link);
    const double limit = paced ? pace : link;
    to->set_limit_megabits(limit);
    if (limit <= 0) return;
    to->set_limited_by(paced ? "max_mbps" : "link");
    to->set_of_limit(to->wire_megabytes_out() * 8 / limit);
  }

  const Topology& topology_;
  const Measurement& measurement_;
  const size_t index_;
  const TopologySegment& segment_;
  std::vector<NodeId> nodes_;
  int64_t chunks_ = 0;
  double chunk_bytes_ = 0;
};

void AddNode(const std::string& name, const BenchReport& report, BenchResult* result) {
  double bytes = 0;
  for (const BenchEnd& end : report.end()) {
    bytes += static_cast<double>(end.wire_bytes_out()) + static_cast<double>(end.bytes_in());
  }
  const double cpu = std::max(0.0f, report.process_cpu_seconds() - report.load_cpu_seconds());
  BenchNodeResult* node = result->add_node();
  node->set_name(name);
  node->set_seconds(report.seconds());
  node->set_process_cpu_seconds(report.process_cpu_seconds());
  node->set_load_cpu_seconds(report.load_cpu_seconds());
  node->set_megabytes_moved(bytes / kMega);
  node->set_process_cpu_seconds_per_gigabyte(PerGigabyte(cpu, bytes));
}

}  // namespace

bool FitsTopology(const BenchReport& report, NodeId node, const Topology& topology) {
  std::set<uint32_t> segments;
  return AreAmounts({report.seconds(), report.process_cpu_seconds(), report.load_cpu_seconds()}) &&
         std::all_of(report.end().begin(), report.end().end(), [&](const BenchEnd& end) {
           return EndFits(end, node, topology) && segments.insert(end.segment()).second;
         });
}

BenchResult ResultOf(const Topology& topology, const Measurement& measurement) {
  BenchResult result;
  result.set_cluster(topology.name);
  result.set_weights(static_cast<double>(measurement.weights));
  result.set_warm_up_seconds(measurement.warm_up_seconds);
  result.set_seconds(measurement.seconds);
  for (const std::string& name : measurement.missing) result.add_missing(name);
  for (const NodeId node : measurement.participants) {
    const auto report = measurement.reports.find(node);
    const std::string& name = topology.nodes[node].name;
    if (report == measurement.reports.end()) {
      result.add_without_report(name);
    } else {
      AddNode(name, report->second, &result);
    }
  }
  for (size_t i = 0; i < topology.segments.size(); ++i) {
    BenchSegmentResult segment;
    if (SegmentSummer(topology, measurement, i).Sum(&segment)) {
      *result.add_segment() = std::move(segment);
    }
  }
  return result;
}

std::string ResultJson(const BenchResult& result) {
  google::protobuf::util::JsonPrintOptions print;
  print.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(result, &json, print);
  if (!status.ok()) throw Error("bench: ", status.ToString());
  return json + "\n";
}

}  // namespace millrace::inline linktest
