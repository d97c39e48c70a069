#include "metrics/metrics_reading.h"

#include <bit>
#include <cstring>
#include <unordered_set>

#include "base/error.h"

namespace millrace {
namespace {

constexpr char kMillracePrefix[] = "millrace_", kRunGroup[] = "run";

template <size_t kBytes>
std::string Text(const char (&field)[kBytes]) {
  return std::string(field, strnlen(field, kBytes));
}

// "frames_sent" for "millrace_segment_frames_sent_total".
std::string NumberOf(std::string_view name) {
  constexpr std::string_view kPrefix = kMillracePrefix, kSuffix = "_total";
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  if (!name.starts_with(kPrefix)) return std::string(name);
  return std::string(name.substr(name.find('_', kPrefix.size()) + 1));
}

MetricType TypeOf(uint32_t type) { return type > 3 ? MetricType::kGauge : MetricType{type}; }

double ValueOf(MetricType type, uint64_t bits) {
  return type == MetricType::kCounter ? static_cast<double>(bits) : std::bit_cast<double>(bits);
}

MetricLabels LabelsIn(std::string_view bytes) {
  const auto next = [&bytes] {
    const size_t end = std::min(bytes.find('\0'), bytes.size());
    const std::string text(bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    return text;
  };
  MetricLabels labels;
  for (std::string key = next(); !key.empty(); key = next()) labels.emplace_back(key, next());
  return labels;
}

void Describe(MetricsReading::Metric* metric) {
  const std::string *segment = nullptr, *peer = nullptr;
  for (const auto& [key, value] : metric->labels) {
    if (key == "segment") {
      segment = &value;
    } else if (key == "peer") {
      peer = &value;
    } else {
      metric->detail += "." + value;
    }
  }
  metric->group = segment == nullptr ? kRunGroup
                  : peer == nullptr  ? "segment " + *segment
                                     : StrCat("peer ", *peer, " on ", *segment);
}

}  // namespace

double MetricsReading::Value(std::string_view group, std::string_view number,
                             double default_value) const {
  double sum = 0;
  bool found = false;
  for (const Metric& metric : metrics) {
    if (metric.group != group || NumberOf(metric) != number) continue;
    sum += metric.value;
    found = true;
  }
  return found ? sum : default_value;
}

std::vector<std::string> MetricsReading::Groups() const {
  std::vector<std::string> groups;
  std::unordered_set<std::string_view> known;
  for (const Metric& metric : metrics) {
    if (known.insert(metric.group).second) groups.push_back(metric.group);
  }
  return groups;
}

std::string_view metrics::HistogramName(std::string_view name) {
  for (const std::string_view suffix : {"_bucket", "_sum", "_count"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

MetricsReading metrics::DecodeMetrics(std::span<const counter_file_layout::FamilyRow> families,
                                      std::span<const counter_file_layout::MetricRow> metrics,
                                      std::span<const uint64_t> values) {
  MetricsReading reading;
  for (const auto& row : families) {
    const std::string name = Text(row.name);
    reading.families.push_back(
        {name, Text(row.help), Text(row.unit), TypeOf(row.type), NumberOf(name)});
  }
  for (size_t i = 0; i < metrics.size() && metrics[i].family < families.size(); ++i) {
    MetricsReading::Metric metric;
    metric.family = metrics[i].family;
    metric.labels = LabelsIn({metrics[i].labels, sizeof(metrics[i].labels)});
    metric.value = ValueOf(reading.families[metric.family].type, values[i]);
    Describe(&metric);
    reading.metrics.push_back(std::move(metric));
  }
  return reading;
}

bool metrics::IsOfProgram(const MetricsReading& reading, const MetricsReading::Metric& metric) {
  return metric.group == kRunGroup &&
         !reading.families[metric.family].name.starts_with(kMillracePrefix);
}

}  // namespace millrace
