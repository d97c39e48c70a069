#include "data/window/window_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

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

namespace {

// Farther than any pixel of an image. The sum of two such positions fits in an int.
constexpr float kFarthest = 1 << 29;

int Round(float value) {
  return static_cast<int>(std::clamp(std::round(value), -kFarthest, kFarthest));
}

// From one corner of a window to the other, both inclusive.
float Length(int first, int last) { return static_cast<float>(int64_t{last} - first + 1); }

// One axis of the window.
struct Axis {
  int first, last;  // inclusive
  int before = 0;   // pixels of the output that are 0 before the window, and behind it
  int behind = 0;
  int size = 0;  // of the window in the output
};

Axis Grow(float centre, float half, float scale, int image, int output) {
  Axis axis{Round(centre - half * scale), Round(centre + half * scale)};
  const int whole = axis.last - axis.first + 1;
  const int before = std::max(0, -axis.first), behind = std::max(0, axis.last - image + 1);
  axis.first += before;
  axis.last -= behind;
  const float to_output = static_cast<float>(output) / static_cast<float>(whole);
  axis.size = Round(static_cast<float>(axis.last - axis.first + 1) * to_output);
  axis.before = Round(static_cast<float>(before) * to_output);
  axis.behind = Round(static_cast<float>(behind) * to_output);
  return axis;
}

}  // namespace

WindowPlace PlaceWindow(const WindowCrop& crop, bool mirror, int image_height, int image_width,
                        WindowPlace place) {
  const WindowPlace window = place;
  const auto refuse = [&] {
    throw Error("has a window with the corners (", window.x1, ", ", window.y1, ") and (", window.x2,
                ", ", window.y2, "), which is empty or not in the image of ", image_height, " x ",
                image_width);
  };
  if (window.x1 > window.x2 || window.y1 > window.y2) refuse();
  place.height = place.width = crop.size;
  place.pad_y = place.pad_x = 0;
  if (crop.context_pad > 0 || crop.square) {
    const float scale =
        static_cast<float>(crop.size) / static_cast<float>(crop.size - 2 * crop.context_pad);
    float half_height = Length(place.y1, place.y2) / 2.0f;
    float half_width = Length(place.x1, place.x2) / 2.0f;
    const float centre_x = static_cast<float>(place.x1) + half_width;
    const float centre_y = static_cast<float>(place.y1) + half_height;
    if (crop.square) half_height = half_width = std::max(half_height, half_width);
    const Axis x = Grow(centre_x, half_width, scale, image_width, crop.size);
    const Axis y = Grow(centre_y, half_height, scale, image_height, crop.size);
    place.x1 = x.first, place.x2 = x.last;
    place.y1 = y.first, place.y2 = y.last;
    place.pad_y = y.before;
    place.pad_x = mirror ? x.behind : x.before;
    // By rounding, window and padding may exceed the output by one pixel.
    place.height = std::min(y.size, crop.size - place.pad_y);
    place.width = std::min(x.size, crop.size - place.pad_x);
  }
  const bool inside = place.x1 >= 0 && place.y1 >= 0 && place.x1 <= place.x2 &&
                      place.y1 <= place.y2 && place.x2 < image_width && place.y2 < image_height;
  if (!inside || place.height <= 0 || place.width <= 0) refuse();
  return place;
}

}  // namespace millrace::inline data
