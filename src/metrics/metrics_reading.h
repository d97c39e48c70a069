// Decodes the rows of a registry or of its counter file.
#ifndef MILLRACE_METRICS_METRICS_READING_H_
#define MILLRACE_METRICS_METRICS_READING_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "metrics/counter_file_layout.h"
#include "millrace/metrics.h"

namespace millrace::inline metrics {

// Reads rows of any content. `metrics` and `values` are equally long; the reading ends before the
// first metric that belongs to none of `families`.
MetricsReading DecodeMetrics(std::span<const counter_file_layout::FamilyRow> families,
                             std::span<const counter_file_layout::MetricRow> metrics,
                             std::span<const uint64_t> values);

// "run_seconds" of the names "run_seconds_bucket", "_sum" and "_count".
std::string_view HistogramName(std::string_view name);

// Whether the metric is of no segment and not Millrace's own: a program or a plugin has added it.
bool IsOfProgram(const MetricsReading& reading, const MetricsReading::Metric& metric);

}  // namespace millrace::inline metrics

#endif  // MILLRACE_METRICS_METRICS_READING_H_
