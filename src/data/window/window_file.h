#ifndef MILLRACE_DATA_WINDOW_WINDOW_FILE_H_
#define MILLRACE_DATA_WINDOW_WINDOW_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::inline data {

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

// Where a window of an image goes in the square input of a net.
struct WindowCrop {
  int size = 0;         // of the output: size x size
  int context_pad = 0;  // pixels of the output around the window on each side
  bool square = false;  // crop_mode "square": keep the proportions, else warp
};

// A rectangle of the image (inclusive corners) is resized to height x width and written from
// (pad_y, pad_x) on; the rest of the output is 0.
struct WindowPlace {
  int x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  int height = 0, width = 0;
  int pad_y = 0, pad_x = 0;
};

// As Caffe computes it, in floats. With a padding or square windows, the window grows about its
// centre by size / (size - 2 context_pad), square ones first to their longer side, and its part
// outside of the image stays 0 in the output. `mirror`: the output is mirrored, and so is that
// part. `place` begins with the window's corners. Throws Error, without naming the record, if the
// window is empty or lies outside of the image.
WindowPlace PlaceWindow(const WindowCrop& crop, bool mirror, int image_height, int image_width,
                        WindowPlace place);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_WINDOW_WINDOW_FILE_H_
