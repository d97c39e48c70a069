#include "base/error.h"

#include <cstring>

namespace millrace {

std::string OneLine(std::string text) {
  constexpr unsigned char kDelete = 0x7f;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == kDelete) c = '?';
  }
  return text;
}

std::string ErrnoText(int error_number) {
  char buffer[256];
  return strerror_r(error_number, buffer, sizeof(buffer));
}

void ErrorSink::Report(std::exception_ptr error) {
  {
    std::lock_guard lock(mutex_);
    if (first_) return;
    first_ = error;
  }
  on_error_();
}

bool ErrorSink::failed() const {
  std::lock_guard lock(mutex_);
  return first_ != nullptr;
}

void ErrorSink::RethrowIfFailed() const {
  std::exception_ptr error;
  {
    std::lock_guard lock(mutex_);
    error = first_;
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace millrace
