// Adds metrics to a registry (millrace/metrics.h) at the set-up of a component.
#ifndef MILLRACE_METRICS_REGISTRY_H_
#define MILLRACE_METRICS_REGISTRY_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/metrics.h"

namespace millrace::inline metrics {

// A part of `whole`; if that is null, a registry with a file of its own.
inline std::shared_ptr<MetricsRegistry> PartOrNew(MetricsRegistry* whole) {
  return whole != nullptr ? std::make_shared<MetricsRegistry>(whole)
                          : std::make_shared<MetricsRegistry>(MetricsRegistry::kFolder);
}

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
  Histogram AddHistogram(const MetricInfo& info, const std::vector<double>& bounds) const {
    return registry_.AddHistogram(Full(info), bounds, labels_);
  }

 private:
  MetricInfo Full(const MetricInfo& info) const {
    return {prefix_ + info.name, info.help, info.unit};
  }

  MetricsRegistry& registry_;
  const std::string prefix_;
  const MetricLabels labels_;
};

}  // namespace millrace::inline metrics

#endif  // MILLRACE_METRICS_REGISTRY_H_
