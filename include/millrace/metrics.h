// Metrics: counters and gauges of a process, with names, labels and descriptions in Prometheus
// conventions. They lie in private memory or in a counter file under /dev/shm, which `millrace top`
// and ReadCounterFiles read from outside; docs/operations.md describes the file and lists the
// metrics of Millrace.
//
// A program or plugin adds its metrics once, and then writes each with one store:
//
//   static millrace::Counter* const rows =
//       millrace::MetricsRegistry::OfProcess().AddCounter({"csv_rows_total", "Rows parsed."});
//   rows->AddShared();
//
// Another process reads them:
//
//   for (const millrace::CounterFileReading& process : millrace::ReadCounterFiles()) {
//     std::cout << process.title << ": " << process.Value("run", "csv_rows") << "\n";
//   }
#ifndef MILLRACE_METRICS_H_
#define MILLRACE_METRICS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/counter.h"
#include "millrace/error.h"
#include "millrace/export.h"

namespace millrace {

enum class MetricType : uint32_t {
  kCounter = 0,            // never decreases; an integer
  kGauge = 1,              // the current value; a float64
  kFractionalCounter = 2,  // never decreases; a float64
  // A number of a histogram, a float64: NAME_bucket with the label "le" counts the values that are
  // at most so large, NAME_count all, and NAME_sum adds them up.
  kHistogram = 3,
};

// Keys and values.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// Description of all metrics of one name.
struct MetricInfo {
  // [a-z0-9_]; ends with "_UNIT" if there is a unit, and then, for a counter only, with "_total".
  // At most 63 bytes. Names that begin with "millrace_" are Millrace's own.
  std::string name;
  std::string help;       // a sentence; at most 167 bytes
  std::string unit = "";  // a base unit: "seconds", "bytes"; "" for other numbers
};

// The metrics of a process at one moment. Tables and metrics files show them under shorter names,
// which follow from the long ones: millrace_segment_frames_sent_total{segment="lan",type="diff"}
// has the group "segment lan", the number "frames_sent", and the detail ".diff". Strings hold any
// bytes if they come from a file: OneLine makes them safe for a terminal.
struct MILLRACE_API MetricsReading {
  struct Family {
    std::string name, help, unit;
    MetricType type = MetricType::kGauge;
    // The name without "millrace_", its next word, and "_total"; other names without "_total".
    std::string number;
  };
  struct Metric {
    uint32_t family = 0;  // index in `families`
    MetricLabels labels;
    // "run", "segment SEGMENT" or "peer PEER on SEGMENT", by these two labels.
    std::string group;
    std::string detail;  // '.' and the value of each other label
    double value = 0;
  };
  std::vector<Family> families;
  std::vector<Metric> metrics;

  const std::string& NumberOf(const Metric& metric) const { return families[metric.family].number; }
  // The sum over all details of that number; `default_value` if there is no such metric. Linear in
  // the metrics.
  double Value(std::string_view group, std::string_view number, double default_value = 0) const;
  // Each group once, in the order of the metrics.
  std::vector<std::string> Groups() const;
};

// How values are distributed. Thread-safe.
class MILLRACE_API Histogram {
 public:
  void Observe(double value);

 private:
  friend class MetricsRegistry;
  struct Bucket {
    double bound;
    Gauge* count;
  };
  std::vector<Bucket> buckets_;  // bounds ascend; the last is infinity
  Gauge *sum_ = nullptr, *count_ = nullptr;
};

// Thread-safe.
class MILLRACE_API MetricsRegistry {
 public:
  // Maximum number of metrics.
  static constexpr size_t kCapacity = 32768;
  // Where counter files are.
  static constexpr const char* kFolder = "/dev/shm";

  // The registry for the metrics of this program and its plugins. It exists until the process ends,
  // and so do its metrics. Its file has no name before Publish; `millrace train` publishes it with
  // the metrics of the run.
  static MetricsRegistry& OfProcess();

  // With metrics in private memory.
  MetricsRegistry();
  // With metrics in a new file in `folder`, which has no name before Publish. If the file cannot be
  // created, the metrics are in private memory, and Publish gives the reason.
  explicit MetricsRegistry(const std::string& folder);
  // A part of `whole`: it has the same metrics and the same file. Metrics that are added through
  // the part keep their last values when it is destroyed, and may then be added again.
  explicit MetricsRegistry(MetricsRegistry* whole);
  // The last to go of the registry and its parts removes the file, unless its name refers to
  // another file by now.
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
  // Several metrics (MetricType::kHistogram). `info.name` ends with its unit, if there is one.
  // `bounds` ascend; infinity is added.
  Histogram AddHistogram(const MetricInfo& info, const std::vector<double>& bounds,
                         const MetricLabels& labels = {});
  // Metrics that can still be added.
  size_t room() const;

  // All metrics, in the order in which they were added.
  MetricsReading Read() const;

  // Names the file FOLDER/millrace_counters.PID, with mode 0600, so that others can read it;
  // replaces a file of this user that an earlier process with this pid left. `title` describes the
  // process; at most 95 bytes are stored. Later metrics appear in the file, too. A later call
  // changes the title. Throws Error if there is no file, or if its name belongs to another user's
  // file or is not a regular file. This process maps only its own new file, so no other user can
  // truncate it. Of the registries of a process, publish one.
  void Publish(const std::string& title);
  // "" without a file.
  const std::string& path() const;

 private:
  class Memory;

  const std::shared_ptr<Memory> memory_;
  std::unique_ptr<std::vector<uint32_t>> part_;  // rows of this part; null: the whole
};

// The contents of a counter file at one moment.
struct CounterFileReading : MetricsReading {
  int pid = 0;
  uid_t user = 0;     // the file's owner
  std::string title;  // any bytes
};

// Reads the counter files of the running processes of this user, or of all users if this user is
// root, by pid. Removes files that ended processes of this user left. `skipped`, if not null,
// receives a line with the reason for each counter file that is not read: the first 16, then the
// number of others. Reads at most 64 MiB in total, this user's files first.
MILLRACE_API std::vector<CounterFileReading> ReadCounterFiles(
    const std::string& folder = MetricsRegistry::kFolder,
    std::vector<std::string>* skipped = nullptr);

}  // namespace millrace

#endif  // MILLRACE_METRICS_H_
