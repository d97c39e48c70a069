// Metrics of the process in C.
#include "millrace/metrics.h"

#include "capi/call.h"
#include "capi/texts.h"
#include "metrics/openmetrics.h"

using millrace::Call;
using millrace::Given;

struct millrace_metrics {
  const millrace::MetricsReading reading = millrace::MetricsRegistry::OfProcess().Read();
  millrace::Texts texts;
};

int millrace_metrics_read(millrace_metrics** metrics) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "metrics", metrics);
    *metrics = new millrace_metrics;
  });
}

void millrace_metrics_close(millrace_metrics* metrics) { delete metrics; }

size_t millrace_metrics_count(millrace_metrics* metrics) {
  const char* const function = __func__;
  return millrace::ValueOf(function, size_t{0}, [&] {
    return Given(function, "metrics", metrics).reading.metrics.size();
  });
}

int millrace_metrics_get(millrace_metrics* metrics, size_t index, millrace_metric* result) {
  const char* const function = __func__;
  return Call(function, [&] {
    millrace::CheckResult(function, "millrace_metric", result);
    const millrace::MetricsReading& reading = Given(function, "metrics", metrics).reading;
    const millrace::MetricsReading::Metric& found = millrace::At(function, reading.metrics, index);
    const millrace::MetricsReading::Family& family = reading.families[found.family];
    millrace_metric metric = MILLRACE_METRIC_INIT;
    metric.name = family.name.c_str();
    metric.labels = metrics->texts.Keep(millrace::LabelText(found.labels));
    metric.help = family.help.c_str();
    metric.unit = family.unit.c_str();
    metric.is_counter = family.type != millrace::MetricType::kGauge;
    metric.value = found.value;
    millrace::Give(metric, result);
  });
}
