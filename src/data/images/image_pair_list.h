// List files of pairs of images, as DenseImageData layers read them: a line per pair,
//
//   IMAGE LABEL_IMAGE
//
// two names separated by white space. Lines of white space only are ignored.
#ifndef MILLRACE_DATA_IMAGES_IMAGE_PAIR_LIST_H_
#define MILLRACE_DATA_IMAGES_IMAGE_PAIR_LIST_H_

#include <string>
#include <string_view>
#include <vector>

namespace millrace::inline data {

struct ImagePair {
  std::string image, label;  // names relative to a root folder
};

// The pairs of `text`, in order. Throws Error naming `file` and the line if a line has no two
// names, or if there are no lines.
std::vector<ImagePair> ParseImagePairs(std::string_view text, const std::string& file);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_IMAGE_PAIR_LIST_H_
