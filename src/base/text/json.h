// The parts of JSON texts.
#ifndef MILLRACE_BASE_TEXT_JSON_H_
#define MILLRACE_BASE_TEXT_JSON_H_

#include <string>
#include <string_view>

namespace millrace::inline base {

// `text` as a JSON string: printable ASCII and UTF-8 for any `text`; a byte that is not UTF-8
// becomes U+FFFD.
std::string JsonText(std::string_view text);

// With 17 digits, which distinguish all doubles; "null" if it is not finite.
std::string JsonNumber(double value);

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_TEXT_JSON_H_
