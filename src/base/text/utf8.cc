#include "base/text/utf8.h"

#include <algorithm>
#include <iterator>

namespace millrace::inline base {
namespace {

struct CodeRange {
  char32_t first, last;
};

constexpr CodeRange kNotPrintable[] = {
    {0x0000, 0x001f},    // C0
    {0x007f, 0x009f},    // DEL, C1
    {0x061c, 0x061c},    // directional mark
    {0x200b, 0x200f},    // zero width, directional marks
    {0x2028, 0x202e},    // line separators, directional embeddings and overrides
    {0x2060, 0x206f},    // invisible operators, directional isolates
    {0xfeff, 0xfeff},    // zero width
    {0xfff9, 0xfffb},    // interlinear annotations
    {0xfffe, 0xffff},    // no characters
    {0xe0000, 0xe007f},  // tags
};

// Smallest code that needs the given number of bytes; a smaller one is an overlong encoding.
constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};

}  // namespace

std::optional<Utf8Character> FirstCharacter(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return Utf8Character{lead, 1};
  const size_t bytes = lead >= 0xf8   ? 0
                       : lead >= 0xf0 ? 4
                       : lead >= 0xe0 ? 3
                       : lead >= 0xc0 ? 2
                                      : 0;
  if (bytes == 0 || text.size() < bytes) return std::nullopt;
  char32_t code = lead & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return std::nullopt;
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kSmallest[bytes] || code > 0x10ffff || surrogate) return std::nullopt;
  return Utf8Character{code, bytes};
}

bool IsPrintable(char32_t code) {
  return std::none_of(
      std::begin(kNotPrintable), std::end(kNotPrintable),
      [code](const CodeRange& range) { return code >= range.first && code <= range.last; });
}

std::string_view CutText(std::string_view text, size_t most) {
  size_t end = 0;
  while (end < text.size()) {
    const std::optional<Utf8Character> next = FirstCharacter(text.substr(end));
    const size_t bytes = next ? next->bytes : 1;
    if (end + bytes > most) break;
    end += bytes;
  }
  return text.substr(0, end);
}

std::string_view WithoutByteOrderMark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

}  // namespace millrace::inline base
