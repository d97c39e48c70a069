// Reads the parts of a small text, such as the header of a file: a JSON object, a Python literal.
#ifndef MILLRACE_MODEL_ARRAYS_TEXT_READER_H_
#define MILLRACE_MODEL_ARRAYS_TEXT_READER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::inline model {

// Blanks between the parts are skipped. Functions throw Error naming the file and the byte.
class TextReader {
 public:
  // `where`: for errors. Both outlive the reader.
  TextReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  // Whether the next part is `symbol`, which is then passed.
  bool Accept(std::string_view symbol);
  void Expect(std::string_view symbol);
  // A text between `quote`s, with the escapes of JSON.
  std::string Text(char quote);
  // A whole number from 0 to 2^62.
  int64_t Whole();
  // Whole numbers between `open` and `close` with commas between them, and after the last one too
  // if `trailing_comma`.
  std::vector<int64_t> Wholes(std::string_view open, std::string_view close, bool trailing_comma);
  // Throws Error unless only blanks and zeros follow.
  void ExpectEnd();

 private:
  [[noreturn]] void Fail(const std::string& expected) const;
  void SkipBlanks();
  // The four digits of \uXXXX.
  uint32_t Hex();

  const std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
};

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_ARRAYS_TEXT_READER_H_
