#include "tools/progress_line.h"

#include <glog/logging.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "tools/log_setup.h"

namespace millrace {
namespace {

// A terminal that can return to the beginning of a line and erase it.
bool IsTerminal(int fd) {
  const char* term = getenv("TERM");
  return isatty(fd) && !(term && strcmp(term, "dumb") == 0);
}

int Columns(int fd) {
  struct winsize size {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string Padded(long long value) { return StrCat(value < 10 ? "0" : "", value); }

// "12,345", not negative.
std::string Grouped(long long value) {
  std::string text = StrCat(value);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

// With one decimal.
std::string Decimal(double value) {
  char text[400];
  snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

std::string LossText(double loss) {
  if (!std::isfinite(loss)) return std::isnan(loss) ? "nan" : "inf";
  char text[32];
  snprintf(text, sizeof(text), "%.4g", loss);
  return text;
}

std::optional<double> SecondsLeft(const Progress& progress) {
  const int64_t left = progress.max_iteration - progress.iteration;
  const std::optional<double>& rate = progress.iterations_per_second;
  if (progress.max_iteration <= 0 || left < 0 || !rate || !(*rate > 0)) return std::nullopt;
  return static_cast<double>(left) / *rate;
}

}  // namespace

std::string RemainingText(double seconds) {
  if (!(seconds < 1e9)) return "--";
  const long long whole = std::llround(std::max(seconds, 0.0));
  if (whole < 60) return StrCat(whole, " s");
  if (whole < 3600) return StrCat(whole / 60, ":", Padded(whole % 60));
  if (whole < 86400) {
    return StrCat(whole / 3600, ":", Padded(whole / 60 % 60), ":", Padded(whole % 60));
  }
  return StrCat(whole / 86400, " d ", Padded(whole / 3600 % 24), " h");
}

std::string ProgressText(const Progress& progress, int width) {
  // In the order in which they are shown. If the line is too narrow, parts at the end are dropped.
  std::vector<std::string> parts = {Grouped(progress.iteration)};
  if (progress.max_iteration > 0) {
    parts[0] += "/" + Grouped(progress.max_iteration);
    // Rounded down, so that 100 % appears only at the end.
    const double share =
        static_cast<double>(progress.iteration) / static_cast<double>(progress.max_iteration);
    parts.push_back(Decimal(std::floor(1000 * share) / 10) + " %");
  }
  if (progress.loss) parts.push_back("loss " + LossText(*progress.loss));
  if (progress.max_iteration > 0) {
    const std::optional<double> left = SecondsLeft(progress);
    parts.push_back("ETA " + (left ? RemainingText(*left) : "--"));
  }
  if (progress.iterations_per_second) {
    const bool images = progress.images_per_iteration > 0;
    const double rate =
        *progress.iterations_per_second * (images ? progress.images_per_iteration : 1);
    parts.push_back((rate < 10 ? Decimal(rate) : Grouped(std::llround(rate))) +
                    (images ? " img/s" : " iter/s"));
  }
  std::string text;
  for (const std::string& part : parts) {
    const std::string longer = text.empty() ? part : text + "  " + part;
    if (static_cast<int>(longer.size()) > width) break;
    text = longer;
  }
  return text;
}

// Writes glog's messages to the terminal: erases the line, prints the message, and draws the line
// again. glog itself would print in the middle of the line, and calls its sinks only afterwards.
// Its own stderr output is therefore off while this object exists.
class ProgressLine::Log : public google::LogSink {
 public:
  explicit Log(ProgressLine* line)
      : line_(line),
        to_stderr_(FLAGS_logtostderr),
        also_to_stderr_(FLAGS_alsologtostderr),
        threshold_(FLAGS_stderrthreshold) {
    if (to_stderr_) {
      // Otherwise glog would write the messages to files in /tmp.
      for (int severity = 0; severity < google::NUM_SEVERITIES; ++severity) {
        google::SetLogDestination(severity, "");
      }
    }
    FLAGS_logtostderr = false;
    FLAGS_alsologtostderr = false;
    FLAGS_stderrthreshold = google::NUM_SEVERITIES;
    google::AddLogSink(this);
  }

  ~Log() override {
    google::RemoveLogSink(this);
    FLAGS_logtostderr = to_stderr_;
    FLAGS_alsologtostderr = also_to_stderr_;
    FLAGS_stderrthreshold = threshold_;
  }

  void send(google::LogSeverity severity, const char*, const char* base_filename, int line,
            const google::LogMessageTime& time, const char* message, size_t length) override {
    if (!to_stderr_ && !also_to_stderr_ && severity < threshold_) return;
    const std::string text = LogLine(severity, base_filename, line, time, {message, length});
    std::lock_guard lock(line_->mutex_);
    const bool was_visible = line_->visible_;
    line_->Erase();
    line_->Put(text + "\n");
    if (was_visible) line_->Draw();
  }

 private:
  ProgressLine* const line_;
  const bool to_stderr_, also_to_stderr_;
  const int threshold_;
};

ProgressLine::ProgressLine(const Clock* clock, const Options& options)
    : clock_(clock),
      options_(options),
      terminal_(IsTerminal(options.fd)),
      rate_(clock, options.rate_window_seconds) {
  progress_.max_iteration = options.max_iteration;
  progress_.images_per_iteration = options.images_per_iteration;
  if (terminal_) log_ = std::make_unique<Log>(this);
}

ProgressLine::~ProgressLine() {
  log_.reset();
  std::lock_guard lock(mutex_);
  Erase();
}

void ProgressLine::Update(int64_t global_iteration, std::optional<double> loss) {
  if (!terminal_) return;
  std::lock_guard lock(mutex_);
  progress_.iteration = global_iteration;
  if (loss) progress_.loss = loss;
  rate_.Add(global_iteration);
  const double now = clock_->NowSeconds();
  const bool last = options_.max_iteration > 0 && global_iteration >= options_.max_iteration;
  if (drawn_at_ && !last && now - *drawn_at_ < options_.draw_every_seconds) return;
  drawn_at_ = now;
  progress_.iterations_per_second = rate_.PerSecond();
  Draw();
}

void ProgressLine::Draw() {
  // The last column stays empty: some terminals wrap when it is written.
  Put("\r" + ProgressText(progress_, Columns(options_.fd) - 1) + "\x1b[K");
  visible_ = true;
}

void ProgressLine::Erase() {
  if (visible_) Put("\r\x1b[K");
  visible_ = false;
}

void ProgressLine::Put(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = write(options_.fd, text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;  // the terminal is gone, but training continues
    done += static_cast<size_t>(put);
  }
}

}  // namespace millrace
