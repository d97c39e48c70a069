#ifndef MILLRACE_DATA_IMAGES_RESIZE_H_
#define MILLRACE_DATA_IMAGES_RESIZE_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "data/images/image_decoder.h"

namespace millrace::inline data {

// Limit of the sides that images are resized to, in pixels.
inline constexpr int kMaxResizedSide = 1 << 14;

// The nearest byte, as OpenCV's saturate_cast has it: halves to even. 0 for NaN.
inline uint8_t ToByte(float value) {
  if (!(value > 0)) return 0;
  return value < 255 ? static_cast<uint8_t>(std::lrint(value)) : 255;
}

// Resizes images of 8 bits per value as OpenCV's cv::resize does with INTER_LINEAR, which Caffe
// uses for new_height, new_width and windows.
//
// The centre of output pixel x is at x' = (x + 0.5) * in / out - 0.5 of the input; likewise for
// rows. The value is the sum of the two nearest pixels per axis, weighted by 1 - f and f, where f
// is the fraction of x'. Outside of the input its border pixels count. The arithmetic is OpenCV's
// own: weights of 11 bits, rounded to even; the columns exactly, then the rows as
//
//   ((w0 * (a >> 4) >> 16) + (w1 * (b >> 4) >> 16) + 2) >> 2
//
// An exact halving of both axes is the mean of 2 x 2 pixels, rounded half up, as in OpenCV. Results
// equal those of OpenCV 4.6 without IPP bit for bit. OpenCV builds with Intel's IPP or with
// Carotene (ARM) differ by up to 1.

// A rectangle of a plane: `height` rows of `width` values, `stride` values apart.
struct PlaneView {
  const uint8_t* values = nullptr;
  int height = 0, width = 0;
  int64_t stride = 0;
};

// Used by one thread at a time; keeps its tables for the next image.
class Resizer {
 public:
  // Writes height x width values to `out`, without gaps. All sizes are positive.
  void Resize(const PlaneView& in, int height, int width, uint8_t* out);
  // All channels of an image in (C, H, W) order. `out` is another image.
  void Resize(const Image& in, int height, int width, Image* out);

 private:
  struct Column {
    int first = 0, second = 0;  // input columns
    int weight0 = 0, weight1 = 0;
  };

  void MakeColumns(int in, int out);
  void ResizeRow(const uint8_t* in, std::vector<int>* out) const;

  std::vector<Column> columns_;
  int columns_in_ = 0;              // the width that columns_ is for
  std::vector<int> above_, below_;  // two rows of the input, resized to the output's width
};

// Resizes images of 8 bits per value in each of OpenCV's ways (cv::resize of OpenCV 4.6).
//
//   kLinear    as Resizer
//   kNearest   the pixel at floor(x * in / out)
//   kArea      the mean of the area that a pixel covers, in floats; if a side grows, linear, with
//              the fraction max(0, x + 1 - (floor(x s) + 1) / s), s = in / out, of the next pixel
//   kCubic     4 x 4 pixels, weights of the cubic with A = -0.75
//   kLanczos4  8 x 8 pixels, weights sinc(d) sinc(d / 4), divided by their sum
//
// Positions are those of kLinear; outside of the image its border pixels count. Cubic and Lanczos
// weights have 11 bits. Results are OpenCV's, those of kCubic up to 1: builds of OpenCV with vector
// instructions compute it in floats.

enum class Interpolation { kLinear, kArea, kNearest, kCubic, kLanczos4 };

// Used by one thread at a time; keeps memory for the next image.
class Resampler {
 public:
  // Both sizes are positive; `out` is another image. Throws Error if it would be too large.
  void Resize(const Image& in, int height, int width, Interpolation interpolation, Image* out);

 private:
  Resizer linear_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_RESIZE_H_
