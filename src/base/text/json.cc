#include "base/text/json.h"

#include <cmath>
#include <cstdint>
#include <cstdio>

#include "base/text/utf8.h"

namespace millrace::inline base {
namespace {

void AppendEscaped(char32_t code, std::string* to) {
  const auto append = [to](uint32_t unit) {
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", unit & 0xffff);
    *to += escape;
  };
  if (code < 0x10000) return append(code);
  append(0xd800 + ((code - 0x10000) >> 10));
  append(0xdc00 + ((code - 0x10000) & 0x3ff));
}

}  // namespace

std::string JsonText(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const Utf8Character next = FirstCharacter(text).value_or(Utf8Character{0xfffd, 1});
    if (next.code == '"' || next.code == '\\') quoted += '\\';
    if (IsPrintable(next.code) && next.code != 0xfffd) {
      quoted += text.substr(0, next.bytes);
    } else {
      AppendEscaped(next.code, &quoted);
    }
    text.remove_prefix(next.bytes);
  }
  return quoted + '"';
}

std::string JsonNumber(double value) {
  if (!std::isfinite(value)) return "null";
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.17g", value);
  return digits;
}

}  // namespace millrace::inline base
