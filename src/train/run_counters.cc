#include "train/run_counters.h"

#include <glog/logging.h>

#include <utility>

#include "base/error.h"

namespace millrace::inline train {

RunCounters::RunCounters(std::shared_ptr<MetricsRegistry> registry, const std::string& title,
                         const IterationClock* iterations, int64_t images, int solvers)
    : registry_(std::move(registry)),
      iterations_(*iterations),
      images_(static_cast<uint64_t>(images)) {
  const MetricScope run(registry_.get(), "run", {});
  iteration_ = run.AddGauge({"iteration", "Global iteration."});
  loss_ = run.AddGauge({"loss", "Mean loss over average_loss iterations."});
  solvers_ = run.AddGauge({"solvers", "Solvers of this process."});
  solvers_->Set(solvers);
  data_wait_ = run.AddFractionalCounter(
      {"data_wait_seconds_total", "Time for which solvers waited for batches.", "seconds"});
  processor_wait_ =
      run.AddFractionalCounter({"processor_wait_seconds_total",
                                "Time for which solvers waited for a processor.", "seconds"});
  iterations_here_ = run.AddCounter({"iterations_here_total", "Iterations of this process."});
  images_here_ = run.AddCounter({"images_here_total", "Images of these iterations."});
  iteration_seconds_ = run.AddHistogram(
      {"iteration_seconds", "Times of a solver's iterations, with the tests before them.",
       "seconds"},
      {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60});
  snapshot_failures_ =
      run.AddCounter({"snapshot_failures_total", "Failed attempts to write a snapshot."});
  try {
    registry_->Publish(title);
  } catch (const Error& error) {
    LOG(WARNING) << "millrace top will not show this run: " << error.what();
  }
}

void RunCounters::Update(float loss, uint64_t snapshot_failures, const SolverWaits& waits) {
  const auto own = static_cast<uint64_t>(iterations_.own());
  iteration_->Set(static_cast<double>(iterations_.global()));
  iterations_here_->Set(own);
  images_here_->Set(own * images_);
  loss_->Set(loss);
  data_wait_->Set(static_cast<double>(waits.data_ns) * 1e-9);
  processor_wait_->Set(static_cast<double>(waits.processor_ns) * 1e-9);
  snapshot_failures_->Set(snapshot_failures);
}

}  // namespace millrace::inline train
