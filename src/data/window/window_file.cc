#include "data/window/window_file.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace millrace::inline data {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";

// Splits a text at white space and counts lines.
class Words {
 public:
  Words(std::string_view text, const std::string& file) : text_(text), file_(file) { SkipSpace(); }

  bool done() const { return text_.empty(); }

  std::string_view Take(const char* what) {
    if (done()) throw Error(file_, ": ends where ", what, " is expected");
    line_of_word_ = line_;
    const std::string_view word = text_.substr(0, text_.find_first_of(kSpace));
    text_.remove_prefix(word.size());
    SkipSpace();
    return word;
  }

  template <typename Number>
  Number TakeNumber(const char* what, Number least, Number most) {
    const std::string_view word = Take(what);
    Number number{};
    const auto result = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool whole = result.ec == std::errc() && result.ptr == word.data() + word.size();
    if (!whole || !(number >= least && number <= most)) {
      Fail(word, StrCat(what, " from ", least, " to ", most));
    }
    return number;
  }

  // For the word taken last.
  [[noreturn]] void Fail(std::string_view word, const std::string& expected) const {
    throw Error(file_, ":", line_of_word_, ": '", word.substr(0, 100), "': expected ", expected);
  }

 private:
  void SkipSpace() {
    const std::string_view space = text_.substr(0, text_.find_first_not_of(kSpace));
    line_ += static_cast<uint64_t>(std::count(space.begin(), space.end(), '\n'));
    text_.remove_prefix(space.size());
  }

  std::string_view text_;
  const std::string& file_;
  uint64_t line_ = 1, line_of_word_ = 1;
};

// A float holds such numbers exactly, as it must in a Datum.
constexpr int32_t kMax = 1 << 24;

}  // namespace

WindowFile ParseWindowFile(std::string_view text, const std::string& file, float object_overlap,
                           float background_overlap) {
  WindowFile result;
  Words words(text, file);
  while (!words.done()) {
    const auto number = static_cast<int32_t>(result.images.size());
    if (const std::string_view mark = words.Take("'#'"); mark != "#") {
      words.Fail(mark, StrCat("'#' before image ", number));
    }
    words.TakeNumber<int32_t>("the image's number", number, number);
    result.images.emplace_back(words.Take("the path of an image"));
    words.TakeNumber<int32_t>("the number of channels", 1, 4);
    words.TakeNumber<int32_t>("the height of the image", 1, kMax);
    words.TakeNumber<int32_t>("the width of the image", 1, kMax);
    const auto windows = words.TakeNumber<int32_t>("the number of windows", 0, INT32_MAX);
    for (int32_t i = 0; i < windows; ++i) {
      Window window;
      window.image = static_cast<uint32_t>(number);
      window.label = words.TakeNumber<int32_t>("a class", 0, kMax);
      const auto overlap = words.TakeNumber<float>("an overlap", -1e9f, 1e9f);
      for (int32_t* corner : {&window.x1, &window.y1, &window.x2, &window.y2}) {
        *corner = words.TakeNumber<int32_t>("a corner of a window", -kMax, kMax);
      }
      if (overlap >= object_overlap) {
        if (window.label == 0) {
          throw Error(file, ": image ", number, ": window ", i, " overlaps with an object by ",
                      overlap, " but has class 0, expected 1 or more");
        }
        result.objects.push_back(window);
      } else if (overlap < background_overlap) {
        window.label = 0;
        result.background.push_back(window);
      }
    }
  }
  if (result.images.empty()) throw Error(file, ": holds no images");
  return result;
}

}  // namespace millrace::inline data
