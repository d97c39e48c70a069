// What this process logs.
#ifndef MILLRACE_TEST_SUPPORT_LOG_WATCH_H_
#define MILLRACE_TEST_SUPPORT_LOG_WATCH_H_

#include <glog/logging.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

namespace millrace::test {

// Keeps the lines that are logged while it exists, of this severity and above, which the process
// logs meanwhile even if its FLAGS_minloglevel is higher. Thread-safe.
class LogWatch : public google::LogSink {
 public:
  explicit LogWatch(google::LogSeverity least = google::GLOG_INFO) : least_(least) {
    FLAGS_minloglevel = std::min<int>(FLAGS_minloglevel, least);
    google::AddLogSink(this);
  }
  ~LogWatch() override {
    google::RemoveLogSink(this);
    FLAGS_minloglevel = of_program_;
  }
  void send(google::LogSeverity severity, const char*, const char*, int,
            const google::LogMessageTime&, const char* message, size_t length) override {
    if (severity < least_) return;
    std::lock_guard lock(mutex_);
    lines_.emplace_back(message, length);
  }

  std::vector<std::string> lines() const {
    std::lock_guard lock(mutex_);
    return lines_;
  }
  // The lines that hold `text`.
  std::vector<std::string> With(const std::string& text) const {
    std::vector<std::string> found = lines();
    std::erase_if(found, [&](const std::string& line) { return line.find(text) == line.npos; });
    return found;
  }
  bool Saw(const std::string& text) const { return !With(text).empty(); }
  int Count(const std::string& text) const { return static_cast<int>(With(text).size()); }
  void Clear() {
    std::lock_guard lock(mutex_);
    lines_.clear();
  }

 private:
  const int of_program_ = FLAGS_minloglevel;
  const google::LogSeverity least_;
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_LOG_WATCH_H_
