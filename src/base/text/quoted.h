// Text from files in messages of one line.
#ifndef MILLRACE_BASE_TEXT_QUOTED_H_
#define MILLRACE_BASE_TEXT_QUOTED_H_

#include <cstdio>
#include <string>
#include <string_view>

namespace millrace::inline base {

// `text` in single quotes. Control characters become "\xNN", so that a message stays one line.
inline std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code != 0x7f) {
      quoted += c;
      continue;
    }
    char escape[5];
    std::snprintf(escape, sizeof(escape), "\\x%02x", static_cast<unsigned>(code));
    quoted += escape;
  }
  return quoted + "'";
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_TEXT_QUOTED_H_
