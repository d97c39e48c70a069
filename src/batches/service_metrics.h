// The metrics of a minibatch service; docs/operations.md lists them.
#ifndef MILLRACE_BATCHES_SERVICE_METRICS_H_
#define MILLRACE_BATCHES_SERVICE_METRICS_H_

#include <cstdint>
#include <string>

#include "batches/batch_server.h"
#include "millrace/metrics.h"

namespace millrace::inline batches {

class ServiceMetrics {
 public:
  // Adds them to `registry`, which outlives this object; null: they are in private memory.
  ServiceMetrics(MetricsRegistry* registry, const std::string& service);

  // A thread has made a batch in this time. Any thread.
  void AddMade(int64_t ns) { make_seconds_->AddShared(static_cast<double>(ns) * 1e-9); }
  // A batch was given to a worker. One thread.
  void AddSent(bool in_memory, uint64_t bytes) {
    sent_[in_memory]->Add();
    sent_bytes_[in_memory]->Add(bytes);
  }
  // A worker was refused. The same thread.
  void AddRefused() { refused_->Add(); }
  // The rest, from time to time. The same thread.
  void Update(const BatchServerCounts& counts);

 private:
  MetricsRegistry own_;
  MetricsRegistry part_;
  Counter *sent_[2], *sent_bytes_[2];  // over connections; in memory
  Counter *made_, *consumed_, *returned_, *twice_, *refused_;
  Gauge *make_seconds_, *workers_, *waiting_, *wanted_, *slots_;
};

}  // namespace millrace::inline batches

#endif  // MILLRACE_BATCHES_SERVICE_METRICS_H_
