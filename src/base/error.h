// Errors that a user can cause: one line, naming the file, the field and what
// was expected. Set-up code throws Error; main() prints it and exits with 1.
// For our own invariants use glog's CHECK.
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

// Concatenates anything that can be streamed.
template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// `text` with a '?' for each character that is not printable (base/utf8.h) and for each byte
// that is no UTF-8: names read from files may hold line breaks and what a terminal would obey.
std::string OneLine(std::string_view text);

class Error : public std::runtime_error {
 public:
  template <typename... Parts>
  explicit Error(const Parts&... parts) : std::runtime_error(OneLine(StrCat(parts...))) {}
};

// What is missing may come by itself: an interface is down, or there is no route to a peer. Who
// sets up may wait and try again.
class NetworkDownError : public Error {
 public:
  using Error::Error;
};

// The reason that errno gives, as text.
std::string ErrnoText(int error_number);

// Where the threads of a run leave the error that ended them. The first one is
// kept; `on_error` is called once, from the failing thread, so that the run can
// be asked to stop. Thread-safe.
class ErrorSink {
 public:
  explicit ErrorSink(std::function<void()> on_error = [] {}) : on_error_(std::move(on_error)) {}

  void Report(std::exception_ptr error);
  bool failed() const;
  // Throws the first error reported, if there was one.
  void RethrowIfFailed() const;

 private:
  mutable std::mutex mutex_;
  std::exception_ptr first_;
  std::function<void()> on_error_;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_ERROR_H_
