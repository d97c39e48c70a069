// The metrics of a process at one moment, read from its registry or from its counter file.
//
// Metrics have Prometheus names and labels, such as
// millrace_segment_frames_sent_total{segment="lan",type="diff"}. Tables and metrics files show them
// under shorter names, which follow from the long ones: the group "segment lan", the number
// "frames_sent", and the detail ".diff".
#ifndef MILLRACE_METRICS_METRICS_READING_H_
#define MILLRACE_METRICS_METRICS_READING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/counter_file_layout.h"

namespace millrace {

enum class MetricType : uint32_t {
  kCounter = 0,            // never decreases; an integer
  kGauge = 1,              // the current value; a float64
  kFractionalCounter = 2,  // never decreases; a float64
};

// Keys and values.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// Strings hold any bytes if they come from a file: OneLine makes them safe for a terminal.
struct MetricsReading {
  struct Family {
    std::string name, help, unit;
    MetricType type = MetricType::kGauge;
    std::string number;  // the name without "millrace_", its next word, and "_total"
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
  // The sum over all details of that number; `fallback` if there is no such metric. Linear in the
  // metrics.
  double Value(std::string_view group, std::string_view number, double fallback = 0) const;
  // Each group once, in the order of the metrics.
  std::vector<std::string> Groups() const;
};

// Reads rows of any content. `metrics` and `values` are equally long; the reading ends before the
// first metric that belongs to none of `families`.
MetricsReading DecodeMetrics(std::span<const counter_file_layout::FamilyRow> families,
                             std::span<const counter_file_layout::MetricRow> metrics,
                             std::span<const uint64_t> values);

}  // namespace millrace

#endif  // MILLRACE_METRICS_METRICS_READING_H_
