#include "data/images/image_pair_list.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/error.h"
#include "base/quoted.h"
#include "base/utf8.h"

namespace millrace::inline data {
namespace {

constexpr std::string_view kSpace = " \t\r\f\v";

// Removes the first word of `line` and returns it; "" if there is none.
std::string_view TakeWord(std::string_view* line) {
  line->remove_prefix(std::min(line->find_first_not_of(kSpace), line->size()));
  const std::string_view word = line->substr(0, line->find_first_of(kSpace));
  line->remove_prefix(word.size());
  return word;
}

bool IsByte(std::string_view word) {
  int value = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() && value >= 0 && value <= 255;
}

const char* ExpectedOf(PairLabels labels) {
  switch (labels) {
    case PairLabels::kImage:
      return "the names of an image and of its label image";
    case PairLabels::kNumber:
      return "the name of an image and its label, 0 to 255";
    case PairLabels::kNone:
      break;
  }
  return "the name of an image, and at most one word more";
}

}  // namespace

std::vector<ImagePair> ParseImagePairs(std::string_view text, const std::string& file,
                                       PairLabels labels) {
  std::vector<ImagePair> pairs;
  text = WithoutByteOrderMark(text);
  uint64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    std::string_view rest = line;
    const std::string_view image = TakeWord(&rest), label = TakeWord(&rest);
    if (image.empty()) continue;
    const bool fits = labels == PairLabels::kNone     ? true
                      : labels == PairLabels::kNumber ? IsByte(label)
                                                      : !label.empty();
    if (!fits || !TakeWord(&rest).empty()) {
      throw Error(file, ":", number, ": ", Quoted(line.substr(0, 200)), ": expected ",
                  ExpectedOf(labels));
    }
    pairs.push_back({std::string(image), labels == PairLabels::kNone ? "" : std::string(label)});
  }
  if (pairs.empty()) throw Error(file, ": lists no images");
  return pairs;
}

}  // namespace millrace::inline data
