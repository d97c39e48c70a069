#include "base/error.h"

#include <cstring>

#include "base/text/utf8.h"

namespace millrace {

std::string OneLine(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  while (!text.empty()) {
    const std::optional<Utf8Character> next = FirstCharacter(text);
    const size_t bytes = next ? next->bytes : 1;
    if (next && IsPrintable(next->code)) {
      line += text.substr(0, bytes);
    } else {
      line += '?';
    }
    text.remove_prefix(bytes);
  }
  return line;
}

std::string base::ErrnoText(int error_number) {
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
