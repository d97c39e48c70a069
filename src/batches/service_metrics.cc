#include "batches/service_metrics.h"

#include "metrics/registry.h"

namespace millrace::inline batches {

ServiceMetrics::ServiceMetrics(MetricsRegistry* registry, const std::string& service)
    : part_(registry != nullptr ? registry : &own_) {
  const MetricScope scope(&part_, "batches", {{"service", service}});
  for (const bool in_memory : {false, true}) {
    const MetricLabels way = {{"way", in_memory ? "memory" : "connection"}};
    sent_[in_memory] = scope.AddCounter({"sent_total", "Batches given to workers."}, way);
    sent_bytes_[in_memory] = scope.AddCounter(
        {"sent_bytes_total", "Values of the batches given to workers.", "bytes"}, way);
  }
  made_ = scope.AddCounter({"made_total", "Batches made."});
  consumed_ =
      scope.AddCounter({"consumed_total", "Batches on which workers said that they trained."});
  returned_ = scope.AddCounter({"returned_total", "Batches of lost workers, given to others."});
  twice_ = scope.AddCounter({"twice_total", "Batches on which two workers may have trained."});
  refused_ = scope.AddCounter({"refused_total", "Connections of workers that were refused."});
  make_seconds_ = scope.AddFractionalCounter(
      {"make_seconds_total", "Time of the threads that read, decode and transform.", "seconds"});
  workers_ = scope.AddGauge({"workers", "Data layers of workers that are connected."});
  waiting_ = scope.AddGauge({"waiting_workers", "Of these, those that have no batch."});
  wanted_ = scope.AddGauge({"wanted", "Batches that workers asked for and have not got."});
  slots_ = scope.AddGauge({"slots", "Batches in memory."});
}

void ServiceMetrics::Update(const BatchServerCounts& counts) {
  made_->Set(counts.made);
  consumed_->Set(counts.consumed);
  returned_->Set(counts.returned);
  twice_->Set(counts.twice);
  workers_->Set(static_cast<double>(counts.workers));
  waiting_->Set(static_cast<double>(counts.waiting));
  wanted_->Set(static_cast<double>(counts.wanted));
  slots_->Set(static_cast<double>(counts.used_slots));
}

}  // namespace millrace::inline batches
