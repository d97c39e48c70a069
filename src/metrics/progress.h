// The live line of a run at a terminal:
//
//   1,240/10,000  12.4 %  loss 0.1234  ETA 1:23  10,250 img/s
//
// What it says is pure (RecentRate, ProgressText); ProgressLine draws it.
#ifndef MILLRACE_METRICS_PROGRESS_H_
#define MILLRACE_METRICS_PROGRESS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"

namespace millrace {

// How fast a count has risen lately. Not thread-safe.
class RecentRate {
 public:
  // Over the last `window_seconds`; `clock` outlives it.
  RecentRate(const Clock* clock, double window_seconds)
      : clock_(clock), window_seconds_(window_seconds) {}

  // The count stands at `count` now. One that is lower than before starts anew.
  void Add(int64_t count);
  // Per second; nothing before two counts at different times.
  std::optional<double> PerSecond() const;

 private:
  struct Sample {
    double seconds;
    int64_t count;
  };
  const Clock* clock_;
  const double window_seconds_;
  std::deque<Sample> samples_;  // within the window, and one older
};

struct Progress {
  int64_t iteration = 0;                        // global, completed
  int64_t max_iteration = 0;                    // 0: unknown
  std::optional<double> iterations_per_second;  // lately
  double images_per_iteration = 0;              // 0: unknown
  std::optional<double> loss;
};

// The line, in at most `width` columns: what matters least is left out first.
std::string ProgressText(const Progress& progress, int width);

// "45 s", "1:23", "2:03:45", "3 d 04 h".
std::string RemainingText(double seconds);

// Draws the line at the bottom of a terminal, over and over, and keeps it below
// the log: while one lives on a terminal, glog's stderr output goes through it.
// On anything else than a terminal it draws nothing and leaves logging as it is.
// Make at most one at a time, while no other thread logs; then thread-safe.
class ProgressLine {
 public:
  struct Options {
    int64_t max_iteration = 0;
    double images_per_iteration = 0;
    double draw_every_seconds = 0.1;
    double rate_window_seconds = 10;
    int fd = 2;  // stderr
  };
  // `clock` outlives it.
  ProgressLine(const Clock* clock, const Options& options);
  // Takes the line off the terminal.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Where the run stands. Cheap: draws only every draw_every_seconds, and at the
  // last iteration.
  void Update(int64_t global_iteration, std::optional<double> loss);

  bool draws() const { return terminal_; }

 private:
  class Log;

  // With mutex_ held.
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

}  // namespace millrace

#endif  // MILLRACE_METRICS_PROGRESS_H_
