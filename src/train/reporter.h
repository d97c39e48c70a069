// Output of a run: log lines in the format of Caffe's log parsers, rows of the metrics file, and
// progress for the host program.
#ifndef MILLRACE_TRAIN_REPORTER_H_
#define MILLRACE_TRAIN_REPORTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <glog/logging.h>

#include "base/clock.h"
#include "base/error.h"
#include "metrics/metrics_writer.h"
#include "metrics/registry.h"
#include "nn/net.h"
#include "solver/moving_average.h"
#include "solver/solver.h"
#include "solver/solver_config.h"
#include "train/evaluation/evaluator.h"
#include "train/options.h"

namespace millrace::inline train {

// Thread-safe.
class Reporter {
 public:
  // `sinks` receive the rows. All references outlive the reporter.
  Reporter(const SolverConfig& config, const TrainOptions& options, const Clock& clock,
           std::vector<MetricsSink*> sinks);

  // Adds the metrics of the segments in `registry` to the rows. Call before Start.
  void Watch(std::shared_ptr<const MetricsRegistry> registry) { registry_ = std::move(registry); }
  // Training starts at global iteration `start`, with `images` per iteration.
  void Start(const std::string& net_name, int64_t start, int64_t images);
  // Lines come in the order of their iterations: those of an iteration wait for the solvers that
  // are at earlier ones. If too many wait, a warning says how many displays are left out. Solver
  // `solver` takes its next iteration, which is at least `at_least`; it has taken `iteration`,
  // which has no lines if `has_lines` is false; it takes no more.
  void Taking(int solver, int64_t at_least);
  void Took(int solver, int64_t iteration, bool has_lines);
  void TakesNoMore(int solver);
  // Reports an iteration that a solver has computed. `net`: the calling solver's net, for its
  // outputs. `display`: log it even if it is not a multiple of the interval.
  // `solver`: that of Took.
  void Iteration(const StepResult& step, const BuiltNet& net, bool display = false, int solver = 0);
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
  // What is known of an iteration or a test, in the order in which it is written.
  struct Report {
    int64_t iteration = 0;
    std::vector<std::pair<google::LogSeverity, std::string>> lines = {};
    std::optional<MetricsRow> row = {};

    template <typename... Parts>
    void Add(const Parts&... parts) {
      lines.emplace_back(google::GLOG_INFO, StrCat(parts...));
    }
  };
  // Reports that wait for a slower solver. Beyond it, iterations are not displayed.
  static constexpr size_t kMaxWaiting = 10'000;

  // The caller holds mutex_, from here on.
  void Display(int64_t iteration, float loss, float rate, const BuiltNet& net, Report* report);
  void AddClasses(const OutputMean& output, Report* report) const;
  MetricsRow Row(int64_t iteration) const;
  void Write(Report report);
  // Writes the reports that need not wait.
  void WriteWaiting();

  const SolverConfig& config_;
  const TrainOptions& options_;
  const Clock& clock_;
  const std::vector<MetricsSink*> sinks_;
  std::shared_ptr<const MetricsRegistry> registry_;
  double start_seconds_ = 0;
  int64_t images_per_iteration_ = 0;

  mutable std::mutex mutex_;
  MovingAverage losses_;
  int64_t done_ = 0;            // iterations reported by this process
  int64_t displayed_done_ = 0;  // value of done_ at the last displayed line
  double displayed_seconds_ = 0;
  // By solver: the earliest iteration of which it may still report lines.
  std::map<int, int64_t> under_way_;
  std::multimap<int64_t, Report> waiting_;            // by iteration; none is empty
  int64_t left_out_ = 0;                              // displays beyond kMaxWaiting
  std::optional<std::pair<int64_t, int>> announced_;  // test that BeginTest has logged the line of
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_REPORTER_H_
