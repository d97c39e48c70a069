// The interface of module opencv, which uses nothing of the library: OpenCV's library of image
// formats depends on some 70 further libraries, which only programs that meet such an image load.
#ifndef MILLRACE_DATA_OPENCV_DECODE_H_
#define MILLRACE_DATA_OPENCV_DECODE_H_

#include <cstddef>
#include <cstdint>

namespace millrace::inline data {

enum class OpenCvResult {
  kRead,
  kUnreadable,  // damaged, or of a format that OpenCV does not know
  kDeep,        // has more than 8 bits a value, and its own colours are asked for
};

// What an image becomes: its own kind (IMREAD_UNCHANGED), three channels, or one.
enum class OpenCvColor { kOwn, kColor, kGray };

// Called once with the size of the image; returns memory for rows in (H, W, C) order. May throw.
using OpenCvPlace = uint8_t* (*)(void* user, int channels, int height, int width);

// Reads an image as cv::imdecode does. Thread-safe.
using OpenCvDecode = OpenCvResult(const char* file, size_t size, OpenCvColor color,
                                  OpenCvPlace place, void* user);

// The name of the one symbol of the shared object, an OpenCvDecode.
inline constexpr char kOpenCvDecode[] = "millrace_opencv_decode";

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_OPENCV_DECODE_H_
