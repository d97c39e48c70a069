// Lists of pairs of images of any bytes: they give names of the list, or one line that names it.
#include "data/images/image_pairs.h"

#include "test/fuzz/support/files.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {

std::vector<std::string> Corpus() {
  return {"a.jpg b.png\nc\td\r\n\n", "one\n", "a b c\n", "  \n", ""};
}

bool Target(const std::string& input) {
  try {
    const std::vector<ImagePair> pairs = ParseImagePairs(input, "list");
    std::string text;
    for (const ImagePair& pair : pairs) {
      for (const std::string& name : {pair.image, pair.label}) {
        if (name.empty() || input.find(name) == std::string::npos) return false;
        if (name.find_first_of(" \t\r\n") != std::string::npos) return false;
      }
      text += pair.image + " " + pair.label + "\n";
    }
    return !pairs.empty() && ParseImagePairs(text, "list").size() == pairs.size();
  } catch (const Error& error) {
    return IsOneLineNaming(error, {"list"});
  }
}

}  // namespace millrace::fuzz
