// What this process logs.
#ifndef MILLRACE_TEST_SUPPORT_LOG_WATCH_H_
#define MILLRACE_TEST_SUPPORT_LOG_WATCH_H_

#include <glog/logging.h>

#include <mutex>
#include <string>

namespace millrace::test {

// Keeps the lines from its construction on that pass FLAGS_minloglevel. Thread-safe.
class LogWatch : public google::LogSink {
 public:
  LogWatch() { google::AddLogSink(this); }
  ~LogWatch() override { google::RemoveLogSink(this); }
  void send(google::LogSeverity, const char*, const char*, int, const struct tm*,
            const char* message, size_t length) override {
    std::lock_guard lock(mutex_);
    lines_.append(message, length).push_back('\n');
  }
  bool Saw(const std::string& text) const {
    std::lock_guard lock(mutex_);
    return lines_.find(text) != std::string::npos;
  }

 private:
  mutable std::mutex mutex_;
  std::string lines_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_LOG_WATCH_H_
