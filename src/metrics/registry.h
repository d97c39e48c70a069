// Counters and gauges of a process, with names, labels and descriptions in Prometheus conventions.
// A component adds its metrics once, at set-up, and then writes them with one store each.
//
// The metrics lie in private memory or in a counter file under /dev/shm, which the user of the
// process can read at any time (`millrace top`, metrics/counter_file_reader.h). docs/operations.md
// describes the file.
#ifndef MILLRACE_METRICS_REGISTRY_H_
#define MILLRACE_METRICS_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "metrics/metrics_reading.h"
#include "millrace/counter.h"
#include "millrace/file_descriptor.h"

namespace millrace {

// Description of all metrics of one name.
struct MetricInfo {
  // [a-z0-9_]; ends with "_UNIT" if there is a unit, and then, for a counter only, with "_total".
  // At most 63 bytes.
  std::string name;
  std::string help;       // a sentence; at most 167 bytes
  std::string unit = "";  // a base unit: "seconds", "bytes"; "" for other numbers
};

// Thread-safe.
class MetricsRegistry {
 public:
  // Maximum number of metrics.
  static constexpr size_t kCapacity = counter_file_layout::kMostMetrics;
  // Where counter files are.
  static constexpr const char* kFolder = "/dev/shm";

  // With metrics in private memory.
  MetricsRegistry();
  // With metrics in a new file in `folder`, which has no name before Publish. If the file cannot be
  // created, the metrics are in private memory, and Publish gives the reason.
  explicit MetricsRegistry(const std::string& folder);
  // Removes the file, unless its name refers to another file by now.
  ~MetricsRegistry();
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  // Add a metric, which is 0. It stays at its address until the registry is destroyed. `labels` are
  // at most 247 bytes with a zero after each text. Throws Error if name, help, unit or labels are
  // invalid, the same name and labels exist, the name has another description, or there is no room.
  Counter* AddCounter(const MetricInfo& info, const MetricLabels& labels = {});
  Gauge* AddGauge(const MetricInfo& info, const MetricLabels& labels = {});
  // A counter that is no integer.
  Gauge* AddFractionalCounter(const MetricInfo& info, const MetricLabels& labels = {});
  // Metrics that can still be added.
  size_t room() const;

  // All metrics, in the order in which they were added.
  MetricsReading Read() const;

  // Names the file FOLDER/millrace_counters.PID, with mode 0600, so that others can read it;
  // replaces a file of this user that an earlier process with this pid left. `title` describes the
  // process; at most 95 bytes are stored. Later metrics appear in the file, too. Throws Error if
  // there is no file, or if its name belongs to another user's file or is not a regular file. This
  // process maps only its own new file, so no other user can truncate it. Call it once.
  void Publish(const std::string& title);
  // "" without a file.
  const std::string& path() const { return path_; }

 private:
  size_t Add(const MetricInfo& info, MetricType type, const MetricLabels& labels);
  uint32_t FamilyOf(const MetricInfo& info, MetricType type);
  void Reserve();
  void MapMemory();
  template <typename T>
  T* At(size_t offset) const {
    return reinterpret_cast<T*>(memory_ + offset);
  }

  std::string path_;
  FileDescriptor file_;
  std::string no_file_;  // why the metrics, or the last of them, are not in a file; "" if they are
  char* memory_ = nullptr;

  mutable std::mutex mutex_;
  bool published_ = false;
  uint32_t families_ = 0, metrics_ = 0;
  uint32_t reserved_ = 0;                                // metrics for which the file has pages
  std::unordered_map<std::string, uint32_t> family_of_;  // by name
  std::unordered_set<std::string> known_;                // name and labels of each metric
};

// Adds metrics with a common beginning of their names and common labels.
class MetricScope {
 public:
  // Names begin with "millrace_SCOPE_". `registry` outlives this object.
  MetricScope(MetricsRegistry* registry, const std::string& scope, MetricLabels labels)
      : registry_(*registry), prefix_("millrace_" + scope + "_"), labels_(std::move(labels)) {}

  Counter* AddCounter(const MetricInfo& info, const MetricLabels& more = {}) const {
    MetricLabels labels = labels_;
    labels.insert(labels.end(), more.begin(), more.end());
    return registry_.AddCounter(Full(info), labels);
  }
  Gauge* AddGauge(const MetricInfo& info) const { return registry_.AddGauge(Full(info), labels_); }
  Gauge* AddFractionalCounter(const MetricInfo& info) const {
    return registry_.AddFractionalCounter(Full(info), labels_);
  }

 private:
  MetricInfo Full(const MetricInfo& info) const {
    return {prefix_ + info.name, info.help, info.unit};
  }

  MetricsRegistry& registry_;
  const std::string prefix_;
  const MetricLabels labels_;
};

}  // namespace millrace

#endif  // MILLRACE_METRICS_REGISTRY_H_
