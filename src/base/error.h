// Errors caused by the user's input or environment. The message is one line that names the file,
// the field and the expected value. Set-up code throws Error; main() prints it and exits with
// status 1. Internal invariants use glog's CHECK instead.
#ifndef MILLRACE_BASE_ERROR_H_
#define MILLRACE_BASE_ERROR_H_

#include <exception>
#include <functional>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace millrace {

// Concatenates values of any streamable types.
template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Returns `text` with '?' in place of each non-printable character (base/utf8.h) and of each byte
// that is not valid UTF-8. Names read from files may contain line breaks and terminal control
// sequences.
std::string OneLine(std::string_view text);

class Error : public std::runtime_error {
 public:
  template <typename... Parts>
  explicit Error(const Parts&... parts) : std::runtime_error(OneLine(StrCat(parts...))) {}
};

// A network interface is down or there is no route to a peer. The condition may clear by itself, so
// set-up code may wait and retry.
class NetworkDownError : public Error {
 public:
  using Error::Error;
};

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

}  // namespace millrace

#endif  // MILLRACE_BASE_ERROR_H_
