#include "data/images/image_list.h"

#include <glog/logging.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/quoted.h"
#include "base/utf8.h"

namespace millrace::inline data {
namespace {

// Whether `label` is a finite number, which need not be whole.
bool IsFraction(std::string_view label) {
  double value = 0;
  const char* const end = label.data() + label.size();
  const auto result = std::from_chars(label.data(), end, value);
  return result.ec == std::errc() && result.ptr == end && std::isfinite(value);
}

// Sets *cut if digits of the label are ignored.
ListedImage ParseLine(std::string_view line, const std::string& file, uint64_t number, bool* cut) {
  const size_t space = line.rfind(' ');
  ListedImage image;
  if (space != std::string_view::npos && space > 0) {
    const std::string_view label = line.substr(space + 1);
    const char* const end = label.data() + label.size();
    const auto result = std::from_chars(label.data(), end, image.label);
    const bool whole = result.ptr == end;
    if (result.ec == std::errc() && (whole || IsFraction(label))) {
      *cut |= !whole;
      image.name = line.substr(0, space);
      return image;
    }
  }
  const bool tab = line.find('\t') != std::string_view::npos;
  throw Error(file, ":", number, ": ", Quoted(line.substr(0, 200)),
              ": expected the name of an image, a space", tab ? ", not a tab," : "",
              " and a label (an integer)");
}

}  // namespace

std::vector<ListedImage> ParseImageList(std::string_view text, const std::string& file) {
  std::vector<ListedImage> images;
  text = WithoutByteOrderMark(text);
  uint64_t number = 0;
  bool warned = false;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    bool cut = false;
    if (!line.empty()) images.push_back(ParseLine(line, file, number, &cut));
    if (cut && !warned) {
      LOG(WARNING) << file << ":" << number << ": '" << line.substr(0, 200)
                   << "': labels are integers; of other numbers the fraction is cut";
      warned = true;
    }
  }
  if (images.empty()) throw Error(file, ": lists no images");
  return images;
}

std::string HintOfRootFolder(const std::string& root_folder) {
  std::error_code ignored;
  if (root_folder.ends_with('/') || !std::filesystem::is_directory(root_folder, ignored)) return "";
  return StrCat("; names follow the root folder '", root_folder, "' as it is, without a '/'");
}

}  // namespace millrace::inline data
