#include "data/images/image_pair_list.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"

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

}  // namespace

std::vector<ImagePair> ParseImagePairs(std::string_view text, const std::string& file) {
  std::vector<ImagePair> pairs;
  uint64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    std::string_view rest = line;
    const std::string_view image = TakeWord(&rest), label = TakeWord(&rest);
    if (image.empty()) continue;
    if (label.empty() || !TakeWord(&rest).empty()) {
      throw Error(file, ":", number, ": '", line.substr(0, 200),
                  "': expected the names of an image and of its label image");
    }
    pairs.push_back({std::string(image), std::string(label)});
  }
  if (pairs.empty()) throw Error(file, ": lists no images");
  return pairs;
}

}  // namespace millrace::inline data
