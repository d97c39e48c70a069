// Output of a run: log lines in the format of Caffe's log parsers, rows of the metrics file, and
// progress for the host program.
#ifndef MILLRACE_TRAIN_REPORTER_H_
#define MILLRACE_TRAIN_REPORTER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "metrics/metrics_writer.h"
#include "metrics/registry.h"
#include "nn/net.h"
#include "solver/lr_policy.h"
#include "solver/moving_average.h"
#include "solver/solver.h"
#include "solver/solver_config.h"
#include "train/evaluator.h"
#include "train/options.h"

namespace millrace::inline train {

// Thread-safe.
class Reporter {
 public:
  // `metrics` may be null. All references outlive the reporter.
  Reporter(const SolverConfig& config, const TrainOptions& options, const Clock& clock,
           MetricsWriter* metrics);

  // Adds the metrics of the segments in `registry` to the rows. Call before Start.
  void Watch(std::shared_ptr<const MetricsRegistry> registry) { registry_ = std::move(registry); }
  // Training starts at global iteration `start`, with `images` per iteration.
  void Start(const std::string& net_name, int64_t start, int64_t images);
  // Reports an iteration that a solver has computed. `net`: the calling solver's net, for its
  // outputs. `display`: log it even if it is not a multiple of the interval.
  void Iteration(const StepResult& step, const BuiltNet& net, bool display = false);
  // Reports the loss of a forward pass with the final weights.
  void FinalLoss(int64_t iteration, float loss);
  // Report a test of test net `index` at iteration `iteration`. Parsers give the outputs of a test
  // to the last "Iteration" line before them. If other solvers of this process may write such lines
  // during the test, the test's own comes with its outputs; else BeginTest logs it.
  void BeginTest(int64_t iteration, int index);
  void Test(int64_t iteration, int index, const Evaluation& evaluation);
  // A stop has ended the test.
  void InterruptTest();
  // The run has made its last iteration.
  void Finish();

  // The current smoothed loss.
  float loss() const;

 private:
  void Display(int64_t iteration, float loss, float rate, const BuiltNet& net);
  void LogClasses(const OutputMean& output) const;
  static void LogTestHeader(int64_t iteration, int index);
  MetricsRow Row(int64_t iteration) const;

  const SolverConfig& config_;
  const TrainOptions& options_;
  const Clock& clock_;
  MetricsWriter* const metrics_;
  const LrPolicy policy_;
  std::shared_ptr<const MetricsRegistry> registry_;
  double start_seconds_ = 0;
  int64_t images_per_iteration_ = 0;

  mutable std::mutex mutex_;
  MovingAverage losses_;
  int64_t done_ = 0;            // iterations reported by this process
  int64_t displayed_done_ = 0;  // value of done_ at the last displayed line
  double displayed_seconds_ = 0;
  std::optional<std::pair<int64_t, int>> announced_;  // test that BeginTest has logged the line of
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_REPORTER_H_
