// Resizes images of 8 bits per value in each of OpenCV's ways (cv::resize of OpenCV 4.6).
//
//   kLinear    data/images/resize.h
//   kNearest   the pixel at floor(x * in / out)
//   kArea      the mean of the area that a pixel covers, in floats; if a side grows, linear, with
//              the fraction max(0, x + 1 - (floor(x s) + 1) / s), s = in / out, of the next pixel
//   kCubic     4 x 4 pixels, weights of the cubic with A = -0.75
//   kLanczos4  8 x 8 pixels, weights sinc(d) sinc(d / 4), divided by their sum
//
// Positions are those of kLinear; outside of the image its border pixels count. Cubic and Lanczos
// weights have 11 bits. Results are OpenCV's, those of kCubic up to 1: builds of OpenCV with vector
// instructions compute it in floats.
#ifndef MILLRACE_DATA_IMAGES_RESAMPLE_H_
#define MILLRACE_DATA_IMAGES_RESAMPLE_H_

#include "data/images/image_decoder.h"
#include "data/images/resize.h"

namespace millrace::inline data {

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

#endif  // MILLRACE_DATA_IMAGES_RESAMPLE_H_
