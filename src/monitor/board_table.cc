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

std::string SegmentLine(const Rates& rates, const std::string& group) {
  const double passes = rates.PerSecond(group, "passes");
  const double idle = rates.PerSecond(group, "idle_passes");
  return Format(
      "  %-18.18s %4.0f %-8s %8.2f %8.2f %9.0f %9.0f %9.0f %8.0f %8.0f %8.0f %5.0f%%\n",
      group.substr(group.find(' ') + 1).c_str(), rates.Value(group, "members"),
      rates.Value(group, "in_sync") == 0 ? "joining"
                                         : (rates.Value(group, "leads") != 0 ? "leads" : "in sync"),
      rates.PerSecond(group, "wire_bytes_out") / 1e6, rates.PerSecond(group, "bytes_in") / 1e6,
      rates.PerSecond(group, "frames_out"), rates.PerSecond(group, "positions_taken"),
      rates.PerSecond(group, "diffs_merged"), rates.PerSecond(group, "resends"),
      rates.PerSecond(group, "dropped_exchange") + rates.PerSecond(group, "dropped_gate") +
          rates.PerSecond(group, "dropped_transport"),
      rates.PerSecond(group, "busy"), passes > 0 ? 100 * idle / passes : 0.0);
}

const BoardReading* Find(const std::vector<BoardReading>& readings, int pid) {
  for (const BoardReading& reading : readings) {
    if (reading.pid == pid) return &reading;
  }
  return nullptr;
}

}  // namespace

std::string BoardTable(const std::vector<BoardReading>& before,
                       const std::vector<BoardReading>& now, double seconds) {
  if (now.empty()) return "nothing is training on this machine\n";
  std::string table;
  for (const BoardReading& reading : now) {
    const Rates rates(Find(before, reading.pid), reading, seconds);
    table +=
        Format("%s (pid %d): iteration %.0f, loss %.4f, here %.1f iterations/s, %.0f images/s\n",
               reading.title.c_str(), reading.pid, rates.Value("run", "iteration"),
               rates.Value("run", "loss"), rates.PerSecond("run", "iterations_here"),
               rates.PerSecond("run", "images_here"));
    bool headed = false;
    for (const std::string& group : reading.Groups()) {
      if (group.rfind("segment ", 0) != 0) continue;
      if (!headed) {
        table += Format("  %-18s %4s %-8s %8s %8s %9s %9s %9s %8s %8s %8s %6s\n", "segment", "node",
                        "state", "MB/s out", "MB/s in", "frames/s", "pos/s", "diffs/s", "resent/s",
                        "drops/s", "busy/s", "idle");
        headed = true;
      }
      table += SegmentLine(rates, group);
    }
  }
  return table;
}

}  // namespace millrace
