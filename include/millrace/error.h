// Errors caused by the user's input or environment. The message is one line that names the file,
// the field and the expected value. Nothing of the library ends the process for such an error.
#ifndef MILLRACE_ERROR_H_
#define MILLRACE_ERROR_H_

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/export.h"

namespace millrace {

// Concatenates values of any streamable types.
template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Returns `text` with '?' in place of each non-printable character and of each byte that is not
// valid UTF-8. Names read from files may contain line breaks and terminal control sequences.
MILLRACE_API std::string OneLine(std::string_view text);

class MILLRACE_API Error : public std::runtime_error {
 public:
  template <typename... Parts>
  explicit Error(const Parts&... parts) : std::runtime_error(OneLine(StrCat(parts...))) {}
};

// A network interface is down or there is no route to a peer. The condition may clear by itself, so
// set-up code may wait and retry.
class MILLRACE_API NetworkDownError : public Error {
 public:
  using Error::Error;
};

// A user's mistake in one field: `field` is a path relative to the message at hand
// ("convolution_param.num_output"). The caller that knows the file adds the position.
class MILLRACE_API FieldError : public Error {
 public:
  template <typename... Parts>
  explicit FieldError(std::string field, const Parts&... parts)
      : Error(parts...), field_(std::move(field)) {}
  const std::string& field() const { return field_; }

 private:
  std::string field_;
};

}  // namespace millrace

#endif  // MILLRACE_ERROR_H_
