#include "model/arrays/text_reader.h"

#include "base/error.h"

namespace millrace::inline model {
namespace {

void AppendUtf8(std::string* text, uint32_t code) {
  const auto byte = [&](uint32_t value) { text->push_back(static_cast<char>(value)); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    byte(0xe0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3f));
  } else {
    byte(0xf0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3f));
    byte(0x80 | (code >> 6 & 0x3f));
  }
  byte(0x80 | (code & 0x3f));
}

}  // namespace

void TextReader::Fail(const std::string& expected) const {
  throw Error(where_, ": damaged header at byte ", at_, ": expected ", expected);
}

void TextReader::SkipBlanks() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
    ++at_;
  }
}

bool TextReader::Accept(std::string_view symbol) {
  SkipBlanks();
  if (!text_.substr(at_).starts_with(symbol)) return false;
  at_ += symbol.size();
  return true;
}

void TextReader::Expect(std::string_view symbol) {
  if (!Accept(symbol)) Fail(std::string(symbol));
}

uint32_t TextReader::Hex() {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) Fail("four hexadecimal digits");
    value = value << 4 | static_cast<uint32_t>(digit);
  }
  return value;
}

std::string TextReader::Text(char quote) {
  Expect(std::string(1, quote));
  std::string text;
  for (;;) {
    if (at_ >= text_.size()) Fail(StrCat("a text that ends with ", quote));
    const char c = text_[at_++];
    if (c == quote) return text;
    if (c != '\\') {
      text.push_back(c);
      continue;
    }
    const char escape = at_ < text_.size() ? text_[at_++] : '\0';
    constexpr std::string_view kEscapes = "bfnrt", kMeant = "\b\f\n\r\t";
    if (escape == 'u') {
      uint32_t code = Hex();
      // A pair of surrogates is one character.
      if (code >= 0xd800 && code < 0xdc00) {
        if (!text_.substr(at_).starts_with("\\u")) Fail("a low surrogate");
        at_ += 2;
        const uint32_t low = Hex();
        if (low < 0xdc00 || low >= 0xe000) Fail("a low surrogate");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      }
      AppendUtf8(&text, code);
    } else if (const size_t i = kEscapes.find(escape); i != std::string_view::npos) {
      text.push_back(kMeant[i]);
    } else if (escape == '"' || escape == '\\' || escape == '/' || escape == quote) {
      text.push_back(escape);
    } else {
      Fail("an escape of JSON");
    }
  }
}

int64_t TextReader::Whole() {
  SkipBlanks();
  const size_t begin = at_;
  int64_t value = 0;
  for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
    if (value > (int64_t{1} << 62) / 10 - 1) Fail("a number up to 2^62");
    value = 10 * value + (text_[at_] - '0');
  }
  if (at_ == begin) Fail("a whole number");
  return value;
}

std::vector<int64_t> TextReader::Wholes(std::string_view open, std::string_view close,
                                        bool trailing_comma) {
  std::vector<int64_t> values;
  Expect(open);
  if (Accept(close)) return values;
  for (;;) {
    values.push_back(Whole());
    if (Accept(close)) return values;
    Expect(",");
    if (trailing_comma && Accept(close)) return values;
  }
}

void TextReader::ExpectEnd() {
  for (; at_ < text_.size(); ++at_) {
    if (text_[at_] != ' ' && text_[at_] != '\n' && text_[at_] != '\0') Fail("the end");
  }
}

}  // namespace millrace::inline model
