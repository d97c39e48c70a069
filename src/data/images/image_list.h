// List files of images, as ImageData layers and convert_imageset read them: a line per image,
//
//   NAME LABEL
//
// The last space separates the label, an integer, so names may contain spaces. Lines of white space
// only, and white space at the end of a line, are ignored. Of other numbers the digits behind the
// whole number are cut, as by Caffe, with a warning.
#ifndef MILLRACE_DATA_IMAGES_IMAGE_LIST_H_
#define MILLRACE_DATA_IMAGES_IMAGE_LIST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::inline data {

struct ListedImage {
  std::string name;  // relative to a root folder
  int32_t label = 0;
};

// The images of `text`, in order. Throws Error naming `file` and the line if a line has no label,
// or if there are no lines.
std::vector<ListedImage> ParseImageList(std::string_view text, const std::string& file);

// What errors about files of a list say besides if `root_folder` is a folder without a '/' at its
// end; "" otherwise.
std::string HintOfRootFolder(const std::string& root_folder);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_IMAGE_LIST_H_
