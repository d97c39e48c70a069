// Errors (millrace/error.h), and their way out of a run's threads. Set-up code throws Error; main()
// prints it and exits with status 1. Internal invariants use glog's CHECK instead.
#ifndef MILLRACE_BASE_ERROR_H_
#define MILLRACE_BASE_ERROR_H_

#include <exception>
#include <functional>
#include <mutex>
#include <string>

#include "millrace/error.h"

namespace millrace::inline base {

// The message for an errno value. Thread-safe.
std::string ErrnoText(int error_number);

// Collects the error that ends a run from any of its threads. Keeps the first one and calls
// `on_error` once, on the thread that reports it, so that it can stop the run. Thread-safe.
class ErrorSink {
 public:
  explicit ErrorSink(std::function<void()> on_error = [] {}) : on_error_(std::move(on_error)) {}

  void Report(std::exception_ptr error);
  bool failed() const;
  // Throws the first reported error; returns if there is none.
  void RethrowIfFailed() const;

 private:
  mutable std::mutex mutex_;
  std::exception_ptr first_;
  std::function<void()> on_error_;
};

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_ERROR_H_
