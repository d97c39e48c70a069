// What every function of the C API does: it turns exceptions into the last error of the thread, and
// checks pointers and the sizes of structs.
#ifndef MILLRACE_CAPI_CALL_H_
#define MILLRACE_CAPI_CALL_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "millrace/error.h"
#include "millrace/millrace.h"

namespace millrace::inline capi {

// Becomes the result of millrace_last_error on this thread, in one line.
void SetLastError(std::string_view text) noexcept;
// Sets the last error to the text of the exception that is being handled.
void SetLastErrorFromException(const char* function) noexcept;

// Runs `body`, which returns nothing or a status; MILLRACE_ERROR if it throws. `function`: the name
// of the C function.
template <typename Body>
int Call(const char* function, Body body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return MILLRACE_OK;
    } else {
      return body();
    }
  } catch (...) {
    SetLastErrorFromException(function);
    return MILLRACE_ERROR;
  }
}

// The same for a function that returns a value, or `otherwise` if `body` throws.
template <typename Value, typename Body>
Value ValueOf(const char* function, Value otherwise, Body body) noexcept {
  try {
    return body();
  } catch (...) {
    SetLastErrorFromException(function);
    return otherwise;
  }
}

// Throws the error that a function of the program or plugin has reported on this thread; `what`
// names the function if it gave no text.
[[noreturn]] void ThrowReported(const std::string& what);

// Calls a function of the program or plugin that returns a status. Throws its error.
template <typename Function, typename... Arguments>
void Callback(const std::string& what, Function function, Arguments... arguments) {
  SetLastError("");
  if (function(arguments...) != MILLRACE_OK) ThrowReported(what);
}

// `pointer`, which the caller of `function` has passed as its argument `argument`. Throws Error if
// it is null.
template <typename T>
T& Given(const char* function, const char* argument, T* pointer) {
  if (pointer == nullptr) throw Error(function, ": ", argument, " is NULL");
  return *pointer;
}
inline std::string GivenText(const char* function, const char* argument, const char* text) {
  return &Given(function, argument, text);
}
inline std::string TextOrNone(const char* text) { return text == nullptr ? "" : text; }

// The element of a list at `index`. Throws Error naming `function` if there is none.
template <typename All>
auto& At(const char* function, All& all, size_t index) {
  if (index >= all.size()) {
    throw Error(function, ": index is ", index, ", expected less than ", all.size());
  }
  return all[index];
}

// A list that ends with NULL; empty if `list` is null.
inline std::vector<std::string> ListOf(const char* const* list) {
  std::vector<std::string> texts;
  for (; list != nullptr && *list != nullptr; ++list) texts.emplace_back(*list);
  return texts;
}

// Throws Error unless `size` is that of a struct which the library can read or write: of the first
// version of it, which `least` is, or of a later one.
void CheckSize(const char* function, const char* type, size_t size, size_t least);

// Copies a struct of `known` bytes that the program has filled, and of which the first version had
// `least`; fields that it does not have are 0. Throws Error if its size is wrong, or if it has
// fields that this library does not know and that are not 0.
void CopyStruct(const char* function, const char* type, const void* from, size_t least,
                size_t known, void* to);

// Size of the first version of a struct; a struct that gets a further field needs a line here.
template <typename T>
constexpr size_t kFirstSize = sizeof(T);
template <>
inline constexpr size_t kFirstSize<millrace_session_options> = offsetof(millrace_session_options,
                                                                        rendezvous);
template <>
inline constexpr size_t kFirstSize<millrace_run_options> = offsetof(millrace_run_options,
                                                                    rendezvous);
template <>
inline constexpr size_t kFirstSize<millrace_stream_options> = offsetof(millrace_stream_options,
                                                                       rendezvous);

template <typename T>
T Taken(const char* function, const char* type, const T* given) {
  T taken{};
  CopyStruct(function, type, &Given(function, type, given), kFirstSize<T>, sizeof(T), &taken);
  return taken;
}
// The same for an argument that may be NULL.
template <typename T>
T TakenOr(const char* function, const char* type, const T* given, const T& otherwise) {
  return given == nullptr ? otherwise : Taken(function, type, given);
}

// Checks a struct that is to receive a result, before anything is done.
template <typename T>
void CheckResult(const char* function, const char* type, const T* result) {
  CheckSize(function, type, Given(function, type, result).size, sizeof(T));
}
// Writes a result, except for its size and for fields that the caller does not know.
template <typename T>
void Give(const T& value, T* result) {
  const size_t size = std::min(result->size, sizeof(T));
  const size_t head = sizeof(result->size);
  std::memcpy(reinterpret_cast<std::byte*>(result) + head,
              reinterpret_cast<const std::byte*>(&value) + head, size - head);
}

}  // namespace millrace::inline capi

#endif  // MILLRACE_CAPI_CALL_H_
