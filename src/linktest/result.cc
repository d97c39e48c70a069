#include "linktest/result.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <initializer_list>
#include <set>
#include <vector>

#include "base/error.h"
#include "exchange/kernels/codec_config.h"
#include "linktest/bench_phase.h"

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

namespace {

__attribute__((format(printf, 1, 2))) std::string Format(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  return line;
}

// `value` with `digits` decimals, or "-" if unknown.
std::string Number(bool known, double value, int digits) {
  return known ? Format("%.*f", digits, value) : "-";
}

// Uses four decimals below 0.1 %, so that small losses differ from none.
std::string Percent(bool known, double share) {
  const double percent = 100 * share;
  return known ? Format("%.*f%%", percent > 0 && percent < 0.1 ? 4 : 2, percent) : "-";
}

std::string Names(const google::protobuf::RepeatedPtrField<std::string>& names) {
  return AndList({names.begin(), names.end()});
}

class Table {
 public:
  explicit Table(const BenchResult& result) : result_(result) {
    for (const BenchNodeResult& node : result.node()) Widen(node.name());
    for (const std::string& name : result.without_report()) Widen(name);
  }

  std::string Text() {
    Head();
    for (const BenchSegmentResult& segment : result_.segment()) {
      text_ += "\n" + Title(segment);
      Flows(segment);
      Ends(segment);
    }
    text_ += "\n";
    Nodes();
    return text_;
  }

 private:
  void Widen(const std::string& name) { width_ = std::max(width_, static_cast<int>(name.size())); }

  void Head() {
    std::vector<std::string> names;
    for (const BenchNodeResult& node : result_.node()) names.push_back(node.name());
    text_ += Format(
        "cluster %s: %.0f weights (%.1f MB) between %zu nodes, %g s after %g s of "
        "warm-up\n",
        result_.cluster().c_str(), result_.weights(), result_.weights() * 4e-6, names.size(),
        result_.seconds(), result_.warm_up_seconds());
    if (result_.missing_size() > 0) text_ += "not there: " + Names(result_.missing()) + "\n";
    if (result_.without_report_size() > 0)
      text_ += "no report: " + Names(result_.without_report()) + "\n";
  }

  static std::string Title(const BenchSegmentResult& segment) {
    return Format("segment %s: %s, mtu %d, %s, %u chunks of %u weights%s\n", segment.name().c_str(),
                  segment.transport().c_str(), segment.mtu(), segment.codec().c_str(),
                  segment.chunks(), segment.chunk_weights(),
                  segment.max_mbps() > 0
                      ? Format(", max_mbps %g Mbit/s a node", segment.max_mbps()).c_str()
                      : "");
  }

  void Flows(const BenchSegmentResult& segment) {
    text_ += Format("  %-*s %-*s %10s %10s %10s %10s %9s %9s %16s\n", width_, "from", width_, "to",
                    "positions", "diffs", "sent", "frames", "lost", "resent", "round trip, ms");
    text_ += Format("  %-*s %-*s %10s %10s %10s %10s %9s %9s %8s %7s\n", width_, "", width_, "",
                    "MB/s", "MB/s", "MB/s", "per s", "of these", "per s", "p50", "p99");
    for (const BenchFlow& flow : segment.flow()) {
      text_ +=
          Format("  %-*s %-*s %10s %10s %10s %10s %9s %9s %8s %7s\n", width_, flow.from().c_str(),
                 width_, flow.to().c_str(),
                 Number(flow.has_position_megabytes(), flow.position_megabytes(), 2).c_str(),
                 Number(flow.has_difference_megabytes(), flow.difference_megabytes(), 2).c_str(),
                 Number(flow.has_frame_megabytes(), flow.frame_megabytes(), 2).c_str(),
                 Number(flow.has_frames(), flow.frames(), 0).c_str(),
                 Percent(flow.has_loss(), flow.loss()).c_str(),
                 Number(flow.has_resends(), flow.resends(), 1).c_str(),
                 Number(flow.has_round_trip_ms_p50(), flow.round_trip_ms_p50(), 2).c_str(),
                 Number(flow.has_round_trip_ms_p99(), flow.round_trip_ms_p99(), 2).c_str());
    }
  }

  void Ends(const BenchSegmentResult& segment) {
    text_ += Format("  %-*s %10s %10s %23s %10s %10s %10s\n", width_, "node", "wire out", "in",
                    "of the limit", "sweeps", "thread", "CPU s");
    text_ += Format("  %-*s %10s %10s %23s %10s %10s %10s\n", width_, "", "MB/s", "MB/s", "",
                    "per s", "CPU", "per GB");
    std::string drops;
    for (const BenchEndResult& end : segment.end()) {
      const std::string limit = end.has_of_limit()
                                    ? Format("%.0f%% of %s %g Mb", 100 * end.of_limit(),
                                             end.limited_by().c_str(), end.limit_megabits())
                                    : "-";
      text_ +=
          Format("  %-*s %10.2f %10.2f %23s %10.2f %9.1f%% %10.3f\n", width_, end.node().c_str(),
                 end.wire_megabytes_out(), end.megabytes_in(), limit.c_str(), end.sweeps(),
                 100 * end.thread_cpu(), end.thread_cpu_seconds_per_gigabyte());
      drops += DropLine(end);
    }
    text_ += drops;
  }

  static std::string DropLine(const BenchEndResult& end) {
    if (end.drop_size() == 0) return "";
    std::string line = "  dropped by " + end.node() + ":";
    const char* comma = " ";
    for (const BenchDropResult& drop : end.drop()) {
      line += comma + Format("%s %.0f", drop.reason().c_str(), drop.frames());
      comma = ", ";
    }
    return line + "\n";
  }

  void Nodes() {
    text_ += Format("%-*s %12s %12s %14s %12s\n", width_ + 2, "node", "MB moved", "CPU s",
                    "of it, load", "CPU s per GB");
    for (const BenchNodeResult& node : result_.node()) {
      text_ += Format("%-*s %12.1f %12.2f %14.2f %12.3f\n", width_ + 2, node.name().c_str(),
                      node.megabytes_moved(), node.process_cpu_seconds(), node.load_cpu_seconds(),
                      node.process_cpu_seconds_per_gigabyte());
    }
  }

  const BenchResult& result_;
  int width_ = 6;  // of the name columns
  std::string text_;
};

}  // namespace

std::string BenchTable(const BenchResult& result) { return Table(result).Text(); }

}  // namespace millrace::inline linktest
