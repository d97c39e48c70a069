#include "data/images/image_list.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace millrace::inline data {
namespace {

ListedImage ParseLine(std::string_view line, const std::string& file, uint64_t number) {
  const size_t space = line.rfind(' ');
  ListedImage image;
  if (space != std::string_view::npos && space > 0) {
    const std::string_view label = line.substr(space + 1);
    const char* const end = label.data() + label.size();
    const auto result = std::from_chars(label.data(), end, image.label);
    if (result.ec == std::errc() && result.ptr == end) {
      image.name = line.substr(0, space);
      return image;
    }
  }
  throw Error(file, ":", number, ": '", line.substr(0, 200),
              "': expected the name of an image, a space and a label (an integer)");
}

}  // namespace

std::vector<ListedImage> ParseImageList(std::string_view text, const std::string& file) {
  std::vector<ListedImage> images;
  uint64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    if (!line.empty()) images.push_back(ParseLine(line, file, number));
  }
  if (images.empty()) throw Error(file, ": lists no images");
  return images;
}

}  // namespace millrace::inline data
