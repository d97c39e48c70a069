// Decodes images in the other formats that Caffe reads, such as BMP, PNM, TIFF and WebP, with
// OpenCV: with module opencv (data/opencv/decode.h), which is loaded at the first of them.
#ifndef MILLRACE_DATA_IMAGES_OPENCV_IMAGES_H_
#define MILLRACE_DATA_IMAGES_OPENCV_IMAGES_H_

#include <string_view>

#include "data/images/image_decoder.h"

namespace millrace::inline data {

// Writes rows of pixels in (H, W, C) order to `image`. Throws Error, without naming the record; if
// the module is missing or cannot be loaded, the error says so. Thread-safe.
void DecodeWithOpenCv(std::string_view file, ImageColor color, Image* image);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_OPENCV_IMAGES_H_
