// The metrics of a run that its status and its process give, beside those of its registry.
#ifndef MILLRACE_CONTROL_RUN_METRICS_H_
#define MILLRACE_CONTROL_RUN_METRICS_H_

#include "control/run_report.h"
#include "millrace/metrics.h"
#include "millrace/run.h"

namespace millrace::inline control {

// Returns the metrics of `registry`, which may be null, and those of the process and its version.
MetricsReading ReadProcessMetrics(const MetricsRegistry* registry);

// Returns them and the metrics of `registry`, which may be null.
MetricsReading ReadRunMetrics(const MetricsRegistry* registry, const RunIdentity& identity,
                              const RunStatus& status);

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_RUN_METRICS_H_
