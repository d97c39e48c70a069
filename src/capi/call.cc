#include "capi/call.h"

#include <cstdarg>
#include <cstdio>
#include <new>

namespace millrace::inline capi {
namespace {

constexpr size_t kMaxErrorBytes = 1000;
// No struct is that large; a size that was never set probably is.
constexpr size_t kMaxStructBytes = 1 << 16;

// Without a destructor, so that a plugin's thread may report an error while the process ends.
struct LastError {
  char text[kMaxErrorBytes + 1] = {};
};
thread_local LastError last_error;

}  // namespace

void SetLastError(std::string_view text) noexcept {
  try {
    const std::string line = OneLine(text.substr(0, kMaxErrorBytes));
    last_error.text[line.copy(last_error.text, kMaxErrorBytes)] = '\0';
  } catch (...) {
    std::snprintf(last_error.text, sizeof(last_error.text), "out of memory");
  }
}

void SetLastErrorFromException(const char* function) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    SetLastError(error.what());
  } catch (const std::bad_alloc&) {
    std::snprintf(last_error.text, sizeof(last_error.text), "%s: out of memory", function);
  } catch (const std::exception& error) {
    char text[kMaxErrorBytes + 1];
    std::snprintf(text, sizeof(text), "%s: %s", function, error.what());
    SetLastError(text);
  } catch (...) {
    std::snprintf(last_error.text, sizeof(last_error.text), "%s: unknown exception", function);
  }
}

void ThrowReported(const std::string& what) {
  const std::string text = millrace_last_error();
  throw Error(text.empty() ? what + " reported an error without millrace_fail" : text);
}

void CheckSize(const char* function, const char* type, size_t size, size_t least) {
  if (size >= least && size <= kMaxStructBytes) return;
  throw Error(function, ": ", type, ": size is ", size, ", expected sizeof(", type, "), ", least,
              " or more");
}

void CopyStruct(const char* function, const char* type, const void* from, size_t least,
                size_t known, void* to) {
  size_t size = 0;
  std::memcpy(&size, from, sizeof(size));
  CheckSize(function, type, size, least);
  const auto* const bytes = static_cast<const unsigned char*>(from);
  for (size_t i = known; i < size; ++i) {
    if (bytes[i] == 0) continue;
    throw Error(function, ": ", type, ": byte ", i, " is set, which is of a later version than ",
                millrace_version());
  }
  std::memcpy(to, from, std::min(size, known));
}

}  // namespace millrace::inline capi

const char* millrace_last_error() { return millrace::last_error.text; }

int millrace_fail(const char* format, ...) {
  char text[millrace::kMaxErrorBytes + 1] = "millrace_fail: format is NULL";
  va_list arguments;
  va_start(arguments, format);
  if (format != nullptr) std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  millrace::SetLastError(text);
  return MILLRACE_ERROR;
}
