// The progress line of a run on a terminal:
//
//   1,240/10,000  12.4 %  loss 0.1234  ETA 1:23  10,250 img/s
//
// ProgressText makes its text without side effects; ProgressLine draws it.
#ifndef MILLRACE_TOOLS_PROGRESS_LINE_H_
#define MILLRACE_TOOLS_PROGRESS_LINE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "metrics/recent_rate.h"
#include "train/run_control.h"

namespace millrace {

struct Progress {
  int64_t iteration = 0;                        // global, completed
  int64_t max_iteration = 0;                    // 0: unknown
  std::optional<double> iterations_per_second;  // recent
  double images_per_iteration = 0;              // 0: unknown
  std::optional<double> loss;
};

// The line, in at most `width` columns. The least important parts are left out first.
std::string ProgressText(const Progress& progress, int width);

// "45 s", "1:23", "2:03:45", "3 d 04 h".
std::string RemainingText(double seconds);

// Redraws the line at the bottom of a terminal and keeps it below the log: while an instance exists
// on a terminal, glog's stderr output goes through it. If `fd` is not a terminal, it draws nothing
// and leaves logging unchanged. Construct at most one at a time, while no other thread logs.
// Afterwards thread-safe.
class ProgressLine {
 public:
  struct Options {
    int64_t max_iteration = 0;
    double images_per_iteration = 0;
    double draw_every_seconds = 0.1;
    double rate_window_seconds = 10;
    int fd = 2;  // stderr
  };
  // `clock` outlives this object.
  ProgressLine(const Clock* clock, const Options& options);
  // Erases the line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Sets the state of the run. Cheap: draws only every draw_every_seconds, and at the last
  // iteration.
  void Update(int64_t global_iteration, std::optional<double> loss);

  bool draws() const { return terminal_; }

 private:
  class Log;

  // Called with mutex_ held.
  void Draw();
  void Erase();
  void Put(const std::string& text);

  const Clock* const clock_;
  const Options options_;
  const bool terminal_;
  std::mutex mutex_;
  Progress progress_;
  RecentRate rate_;
  std::optional<double> drawn_at_;
  bool visible_ = false;
  std::unique_ptr<Log> log_;
};

// Draws the progress line of a run on stderr.
class TerminalProgress : public RunObserver {
 public:
  void Started(int64_t max_iteration, double images_per_iteration) override {
    ProgressLine::Options options;
    options.max_iteration = max_iteration;
    options.images_per_iteration = images_per_iteration;
    line_ = std::make_unique<ProgressLine>(&clock_, options);
  }
  void Iterated(int64_t completed, double loss) override { line_->Update(completed, loss); }
  void Ended() override { line_.reset(); }

 private:
  const SteadyClock clock_;
  std::unique_ptr<ProgressLine> line_;
};

}  // namespace millrace

#endif  // MILLRACE_TOOLS_PROGRESS_LINE_H_
