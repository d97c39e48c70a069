// List files of images with labels for each pixel, as DenseImageData and ImageSegData layers read
// them: a line per image, of words separated by white space,
//
//   IMAGE LABEL_IMAGE   two names (kImage)
//   IMAGE LABEL         a name, and the label of all pixels, 0 to 255 (kNumber)
//   IMAGE               a name; a second word is ignored (kNone)
//
// Lines of white space only are ignored.
#ifndef MILLRACE_DATA_IMAGES_IMAGE_PAIR_LIST_H_
#define MILLRACE_DATA_IMAGES_IMAGE_PAIR_LIST_H_

#include <string>
#include <string_view>
#include <vector>

namespace millrace::inline data {

enum class PairLabels { kImage, kNumber, kNone };

struct ImagePair {
  std::string image;  // a name relative to a root folder
  std::string label;  // such a name, a number, or "", as PairLabels says
};

// The pairs of `text`, in order. Throws Error naming `file` and the line if a line is none of those
// above, or if there are no lines.
std::vector<ImagePair> ParseImagePairs(std::string_view text, const std::string& file,
                                       PairLabels labels = PairLabels::kImage);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_IMAGE_PAIR_LIST_H_
