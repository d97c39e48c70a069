// Lists of images of any bytes: they give the images that a reading by hand finds, or one line that
// names the file.
#include "data/images/image_list.h"

#include "test/fuzz/support/files.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {

std::vector<std::string> Corpus() {
  return {"a.jpg 1\nb c.png -2\r\n\nd 2147483647", "x 0\n", "  \n", "no label\n", "", " 1\n"};
}

bool Target(const std::string& input) {
  try {
    const std::vector<ListedImage> images = ParseImageList(input, "list");
    // Written again, the images are read again.
    std::string text;
    for (const ListedImage& image : images) {
      if (image.name.empty() || image.name.find('\n') != std::string::npos) return false;
      if (input.find(image.name) == std::string::npos) return false;
      text += image.name + " " + std::to_string(image.label) + "\n";
    }
    const std::vector<ListedImage> again = ParseImageList(text, "list");
    if (again.size() != images.size()) return false;
    for (size_t i = 0; i < images.size(); ++i) {
      if (again[i].name != images[i].name || again[i].label != images[i].label) return false;
    }
    return !images.empty();
  } catch (const Error& error) {
    return IsOneLineNaming(error, {"list"});
  }
}

}  // namespace millrace::fuzz
