// Window files of R-CNN, which WindowData layers read: for each image
//
//   # INDEX
//   PATH
//   CHANNELS
//   HEIGHT
//   WIDTH
//   NUMBER OF WINDOWS
//   CLASS OVERLAP X1 Y1 X2 Y2     (for each window; corners are inclusive)
//
// separated by any white space. Images are numbered from 0 on.
#ifndef MILLRACE_DATA_WINDOW_WINDOW_FILE_H_
#define MILLRACE_DATA_WINDOW_WINDOW_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::inline data {

struct Window {
  uint32_t image = 0;  // index
  int32_t label = 0;   // class; 0 is background
  int32_t x1 = 0, y1 = 0, x2 = 0, y2 = 0;
};

struct WindowFile {
  std::vector<std::string> images;  // paths, as in the file
  std::vector<Window> objects, background;
};

// Sorts the windows by their overlap with an object of the class: objects from `object_overlap` on,
// background (whose label becomes 0) below `background_overlap`; others are left out. Throws Error
// naming `file` and the line if the text is malformed, if an object has no class (1 or more), or if
// there are no images.
WindowFile ParseWindowFile(std::string_view text, const std::string& file, float object_overlap,
                           float background_overlap);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_WINDOW_WINDOW_FILE_H_
