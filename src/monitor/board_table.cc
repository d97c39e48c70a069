#include "monitor/board_table.h"

#include <cstdarg>
#include <cstdio>

namespace millrace {
namespace {

__attribute__((format(printf, 1, 2))) std::string Format(const char* format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  return line;
}

class Rates {
 public:
  Rates(const BoardReading* before, const BoardReading& now, double seconds)
      : before_(before), now_(now), seconds_(seconds) {}
  double Value(const std::string& group, const char* name) const { return now_.Value(group, name); }
  double PerSecond(const std::string& group, const char* name) const {
    const double earlier = before_ != nullptr ? before_->Value(group, name) : 0;
    return (now_.Value(group, name) - earlier) / seconds_;
  }

 private:
  const BoardReading* const before_;
  const BoardReading& now_;
  const double seconds_;
};

bool BeginsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

// "segment lan": "lan". "peer b on lan": "  b", which stands below its segment.
std::string RowName(const std::string& group) {
  const std::string name = group.substr(group.find(' ') + 1);
  return BeginsWith(group, "peer ") ? "  " + name.substr(0, name.find(' ')) : name;
}

std::string SegmentState(const Rates& rates, const std::string& group) {
  const char* state = rates.Value(group, "leads") != 0 ? "leads" : "in sync";
  return Format("%4.0f %-8s", rates.Value(group, "members"),
                rates.Value(group, "in_sync") == 0 ? "joining" : state);
}

std::string TrafficRow(const Rates& rates, const std::string& group) {
  const bool peer = BeginsWith(group, "peer ");
  const double passes = rates.PerSecond(group, "passes");
  const double idle = rates.PerSecond(group, "idle_passes");
  std::string row =
      Format("  %-18.18s %-13s %8.2f %8.2f %9.0f %9.0f %9.0f %8.0f %8.0f", RowName(group).c_str(),
             peer ? "" : SegmentState(rates, group).c_str(),
             rates.PerSecond(group, peer ? "bytes_out" : "wire_bytes_out") / 1e6,
             rates.PerSecond(group, "bytes_in") / 1e6, rates.PerSecond(group, "frames_out"),
             rates.PerSecond(group, "positions_taken"), rates.PerSecond(group, "diffs_merged"),
             rates.PerSecond(group, "resends"),
             rates.PerSecond(group, "dropped_exchange") + rates.PerSecond(group, "dropped_gate") +
                 rates.PerSecond(group, "dropped_transport"));
  if (!peer) {
    row += Format(" %8.0f %5.0f%%", rates.PerSecond(group, "busy"),
                  passes > 0 ? 100 * idle / passes : 0.0);
  }
  return row + "\n";
}

std::string TrafficTable(const Rates& rates, const std::vector<std::string>& groups) {
  std::string table = Format("  %-18s %4s %-8s %8s %8s %9s %9s %9s %8s %8s %8s %6s\n", "segment",
                             "node", "state", "MB/s out", "MB/s in", "frames/s", "pos/s", "diffs/s",
                             "resent/s", "drops/s", "busy/s", "idle");
  for (const std::string& group : groups) table += TrafficRow(rates, group);
  return table;
}

std::string ClosenessTable(const Rates& rates, const std::vector<std::string>& groups) {
  std::string table =
      Format("  %-18s %9s %9s %9s %9s %10s %10s %9s %9s\n", "replica", "sweeps/s", "age ms",
             "most ms", "age iter", "dist rms", "dist max", "trip ms", "99% ms");
  for (const std::string& group : groups) {
    table += Format("  %-18.18s %9.2f %9.2f %9.2f %9.1f %10.3g %10.3g %9.2f %9.2f\n",
                    RowName(group).c_str(), rates.PerSecond(group, "sweeps"),
                    rates.Value(group, "age_p50_ms"), rates.Value(group, "age_max_ms"),
                    rates.Value(group, "age_iterations"), rates.Value(group, "distance_rms"),
                    rates.Value(group, "distance_max"), rates.Value(group, "round_trip_p50_ms"),
                    rates.Value(group, "round_trip_p99_ms"));
  }
  return table;
}

const BoardReading* Find(const std::vector<BoardReading>& readings, int pid) {
  for (const BoardReading& reading : readings) {
    if (reading.pid == pid) return &reading;
  }
  return nullptr;
}

}  // namespace

std::string BoardTable(const std::vector<BoardReading>& before,
                       const std::vector<BoardReading>& now, double seconds, bool peers) {
  if (now.empty()) return "nothing is training on this machine\n";
  std::string table;
  for (const BoardReading& reading : now) {
    const Rates rates(Find(before, reading.pid), reading, seconds);
    table +=
        Format("%s (pid %d): iteration %.0f, loss %.4f, here %.1f iterations/s, %.0f images/s\n",
               reading.title.c_str(), reading.pid, rates.Value("run", "iteration"),
               rates.Value("run", "loss"), rates.PerSecond("run", "iterations_here"),
               rates.PerSecond("run", "images_here"));
    std::vector<std::string> groups = reading.Groups();
    std::erase_if(groups, [peers](const std::string& group) {
      return !BeginsWith(group, "segment ") && !(peers && BeginsWith(group, "peer "));
    });
    if (groups.empty()) continue;
    table += TrafficTable(rates, groups) + ClosenessTable(rates, groups);
  }
  return table;
}

}  // namespace millrace
