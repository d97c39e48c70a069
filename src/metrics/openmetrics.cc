#include "metrics/openmetrics.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "metrics/metrics_reading.h"
#include "millrace/error.h"

namespace millrace::inline metrics {
namespace {

// With a backslash before each of `special`.
std::string Escaped(std::string_view text, std::string_view special = "\\\"") {
  std::string escaped;
  for (const char c : OneLine(text)) {
    if (special.find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return {text, end};
}

}  // namespace

std::string LabelText(const MetricLabels& labels) {
  std::string text;
  for (const auto& [key, value] : labels) {
    text += StrCat(text.empty() ? "" : ",", OneLine(key), "=\"", Escaped(value), '"');
  }
  return text;
}

std::string_view NameOf(MetricType type) {
  if (type == MetricType::kHistogram) return "histogram";
  return type == MetricType::kGauge ? "gauge" : "counter";
}

std::string ContentType(MetricsFormat format) {
  return format == MetricsFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

std::string FormatMetrics(const MetricsReading& reading, MetricsFormat format) {
  std::vector<std::string> samples(reading.families.size());
  for (const MetricsReading::Metric& metric : reading.metrics) {
    const std::string labels = LabelText(metric.labels);
    samples[metric.family] +=
        StrCat(OneLine(reading.families[metric.family].name),
               labels.empty() ? "" : StrCat('{', labels, '}'), ' ', Number(metric.value), '\n');
  }
  const bool open = format == MetricsFormat::kOpenMetrics;
  std::string text;
  std::string histogram;  // whose description is written
  for (size_t i = 0; i < samples.size(); ++i) {
    const MetricsReading::Family& family = reading.families[i];
    if (samples[i].empty()) continue;
    std::string name = OneLine(family.name);
    if (family.type == MetricType::kHistogram) {
      name = HistogramName(name);
      if (name == histogram) {
        text += samples[i];
        continue;
      }
      histogram = name;
    }
    if (open && family.type != MetricType::kGauge && name.ends_with("_total")) {
      name.resize(name.size() - 6);
    }
    text += StrCat("# TYPE ", name, ' ', NameOf(family.type), '\n');
    if (open && !family.unit.empty())
      text += StrCat("# UNIT ", name, ' ', OneLine(family.unit), '\n');
    text +=
        StrCat("# HELP ", name, ' ', Escaped(family.help, open ? "\\\"" : "\\"), '\n', samples[i]);
  }
  return open ? text + "# EOF\n" : text;
}

}  // namespace millrace::inline metrics
