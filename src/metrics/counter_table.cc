#include "metrics/counter_table.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "metrics/metrics_reading.h"

namespace millrace::inline metrics {
namespace {

__attribute__((format(printf, 1, 2))) std::string Format(const char* format, ...) {
  char line[4096];  // ten numbers of 310 digits, and names
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  return line;
}

// The numbers of a reading, which outlives this object, each the sum of its details. Indexed,
// because files of other users may have as many groups as metrics.
class Numbers {
 public:
  explicit Numbers(const CounterFileReading& reading) {
    for (const auto& metric : reading.metrics) {
      values_[{metric.group, reading.NumberOf(metric)}] += metric.value;
    }
  }
  double Value(std::string_view group, std::string_view name) const {
    const auto found = values_.find({group, name});
    return found == values_.end() ? 0 : found->second;
  }

 private:
  std::map<std::pair<std::string_view, std::string_view>, double> values_;
};

class Rates {
 public:
  Rates(const CounterFileReading& before, const CounterFileReading& now, double seconds)
      : before_(before), now_(now), seconds_(seconds) {}
  double Value(const std::string& group, const char* name) const { return now_.Value(group, name); }
  double Milliseconds(const std::string& group, const char* name) const {
    return 1e3 * now_.Value(group, StrCat(name, "_seconds"));
  }
  double PerSecond(const std::string& group, const char* name) const {
    return (now_.Value(group, name) - before_.Value(group, name)) / seconds_;
  }

 private:
  const Numbers before_, now_;
  const double seconds_;
};

bool BeginsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

// "segment lan" becomes "lan". "peer b on lan" becomes "  b", the row below its segment.
std::string RowName(const std::string& group) {
  std::string name = OneLine(group.substr(group.find(' ') + 1));
  if (BeginsWith(group, "peer ")) name = "  " + name.substr(0, name.find(' '));
  return std::string(CutText(name, 18));
}

std::string SegmentState(const Rates& rates, const std::string& group) {
  const char* state = rates.Value(group, "is_leader") != 0 ? "is_leader" : "in sync";
  return Format("%4.0f %-8s", rates.Value(group, "members"),
                rates.Value(group, "in_sync") == 0 ? "joining" : state);
}

std::string TrafficRow(const Rates& rates, const std::string& group) {
  const bool peer = BeginsWith(group, "peer ");
  const double passes = rates.PerSecond(group, "passes");
  const double idle = rates.PerSecond(group, "idle_passes");
  std::string row =
      Format("  %-18s %-13s %8.2f %8.2f %9.0f %9.0f %9.0f %8.0f %8.0f", RowName(group).c_str(),
             peer ? "" : SegmentState(rates, group).c_str(),
             rates.PerSecond(group, peer ? "sent_bytes" : "wire_sent_bytes") / 1e6,
             rates.PerSecond(group, "received_bytes") / 1e6, rates.PerSecond(group, "frames_sent"),
             rates.PerSecond(group, "positions_taken"), rates.PerSecond(group, "diffs_merged"),
             rates.PerSecond(group, "resends"), rates.PerSecond(group, "frames_dropped"));
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

// The share of the diffs sent since the last reading that were damped. Empty for peers, which do
// not count them.
std::string DampedShare(const Rates& rates, const std::string& group) {
  if (BeginsWith(group, "peer ")) return "";
  const double diffs = rates.PerSecond(group, "diffs_sent");
  const double damped = rates.PerSecond(group, "diffs_damped");
  return Format("%.0f%%", diffs > 0 ? 100 * damped / diffs : 0.0);
}

std::string DivergenceTable(const Rates& rates, const std::vector<std::string>& groups) {
  std::string table =
      Format("  %-18s %8s %8s %9s %8s %7s %9s %9s %8s %8s\n", "replica", "sweeps/s", "age ms",
             "most ms", "age iter", "damped", "dist rms", "dist max", "trip ms", "99% ms");
  for (const std::string& group : groups) {
    table += Format("  %-18s %8.2f %8.2f %9.2f %8.1f %7s %9.3g %9.3g %8.2f %8.2f\n",
                    RowName(group).c_str(), rates.PerSecond(group, "sweeps"),
                    rates.Milliseconds(group, "age_p50"), rates.Milliseconds(group, "age_max"),
                    rates.Value(group, "age_iterations"), DampedShare(rates, group).c_str(),
                    rates.Value(group, "distance_rms"), rates.Value(group, "distance_max"),
                    rates.Milliseconds(group, "round_trip_p50"),
                    rates.Milliseconds(group, "round_trip_p99"));
  }
  return table;
}

const CounterFileReading& Find(const std::vector<CounterFileReading>& readings, int pid) {
  static const CounterFileReading kNone;
  for (const CounterFileReading& reading : readings) {
    if (reading.pid == pid) return reading;
  }
  return kNone;
}

// A line for each metric that the program or a plugin has added, at most 20: its value, and the
// rate of a counter.
std::string ProgramTable(const CounterFileReading& before, const CounterFileReading& now,
                         double seconds) {
  constexpr int kMaxLines = 20;
  std::map<std::string, double> old;
  for (const auto& metric : before.metrics) {
    if (IsOfProgram(before, metric)) old[before.NumberOf(metric) + metric.detail] = metric.value;
  }
  std::string table;
  int lines = 0;
  for (const auto& metric : now.metrics) {
    if (!IsOfProgram(now, metric) || ++lines > kMaxLines) continue;
    const std::string name = now.NumberOf(metric) + metric.detail;
    table +=
        Format("  %-30s %12.6g", std::string(CutText(OneLine(name), 30)).c_str(), metric.value);
    if (now.families[metric.family].type != MetricType::kGauge) {
      table += Format(" %12.6g/s", (metric.value - old[name]) / seconds);
    }
    table += "\n";
  }
  if (lines > kMaxLines) table += Format("  and %d more\n", lines - kMaxLines);
  return table;
}

// The owner of the process, if it is another user.
std::string Owner(const CounterFileReading& reading) {
  return reading.user == geteuid() ? "" : StrCat(", user ", reading.user);
}

}  // namespace

std::string CounterTable(const std::vector<CounterFileReading>& before,
                         const std::vector<CounterFileReading>& now, double seconds, bool peers) {
  if (now.empty()) return "nothing is training on this machine\n";
  std::string table;
  for (const CounterFileReading& reading : now) {
    const Rates rates(Find(before, reading.pid), reading, seconds);
    table +=
        Format("%s (pid %d%s): iteration %.0f, loss %.4f, here %.1f iterations/s, %.0f images/s\n",
               OneLine(reading.title).c_str(), reading.pid, Owner(reading).c_str(),
               rates.Value("run", "iteration"), rates.Value("run", "loss"),
               rates.PerSecond("run", "iterations_here"), rates.PerSecond("run", "images_here"));
    table += ProgramTable(Find(before, reading.pid), reading, seconds);
    std::vector<std::string> groups = reading.Groups();
    std::erase_if(groups, [peers](const std::string& group) {
      return !BeginsWith(group, "segment ") && !(peers && BeginsWith(group, "peer "));
    });
    if (groups.empty()) continue;
    table += TrafficTable(rates, groups) + DivergenceTable(rates, groups);
  }
  return table;
}

// Counter files as JSON.

namespace {

// The groups in the order of their first metrics, each with all of its metrics. Of metrics with the
// same name only the first is kept, since names in a JSON object must differ.
std::string GroupsJson(const CounterFileReading& reading) {
  std::vector<std::string> groups;
  std::unordered_map<std::string, size_t> places;    // index in `groups`, by name
  std::set<std::pair<size_t, std::string>> numbers;  // index in `groups`, and name
  for (const auto& metric : reading.metrics) {
    const std::string group = JsonText(metric.group);
    const auto [place, is_new] = places.try_emplace(group, groups.size());
    if (is_new) groups.push_back(group + ":{");
    const std::string name = JsonText(reading.NumberOf(metric) + metric.detail);
    if (!numbers.emplace(place->second, name).second) continue;
    groups[place->second] += StrCat(is_new ? "" : ",", name, ":", JsonNumber(metric.value));
  }
  std::string json;
  for (const std::string& group : groups) json += StrCat(json.empty() ? "" : ",", group, "}");
  return json;
}

}  // namespace

std::string CounterFileJson(const std::vector<CounterFileReading>& now) {
  std::string json;
  for (const CounterFileReading& reading : now) {
    json +=
        StrCat(json.empty() ? "" : ",", "{\"pid\":", reading.pid, ",\"user\":", reading.user,
               ",\"title\":", JsonText(reading.title), ",\"groups\":{", GroupsJson(reading), "}}");
  }
  return "[" + json + "]\n";
}

}  // namespace millrace::inline metrics
