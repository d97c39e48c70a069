#include "linktest/table.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <vector>

#include "linktest/bench_phase.h"

namespace millrace::inline linktest {
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
