// Metrics as text for scrapers.
#ifndef MILLRACE_METRICS_OPENMETRICS_H_
#define MILLRACE_METRICS_OPENMETRICS_H_

#include <string>
#include <string_view>

#include "millrace/metrics.h"

namespace millrace::inline metrics {

enum class MetricsFormat {
  kPrometheus,   // Prometheus' text format 0.0.4
  kOpenMetrics,  // OpenMetrics 1.0
};

// "gauge", "counter" or "histogram".
std::string_view NameOf(MetricType type);

// The value of the header Content-Type.
std::string ContentType(MetricsFormat format);

// Labels as in these formats, without braces: a="x",b="y". Backslashes and quotes in values are
// escaped.
std::string LabelText(const MetricLabels& labels);

// All metrics, by family. Bytes that are not printable UTF-8 become '?'.
std::string FormatMetrics(const MetricsReading& reading, MetricsFormat format);

}  // namespace millrace::inline metrics

#endif  // MILLRACE_METRICS_OPENMETRICS_H_
