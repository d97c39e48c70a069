#include "nn/layers/convolution_shape.h"

#include <algorithm>

namespace millrace::inline nn {

void CopyIntoPlanes(const ConvolutionShape& s, const float* image, float* planes) {
  const int64_t height = s.padded_height(), width = s.padded_width();
  const int64_t rows = std::min(s.height, height - s.pad_h);
  const int64_t columns = std::min(s.width, width - s.pad_w);
  if (columns <= 0) return;
  const int64_t row = s.width * s.block;
  for (int64_t c = 0; c < s.channels; c += s.block, image += s.height * row) {
    float* plane = planes + c * height * width;
    for (int64_t y = 0; y < rows; ++y) {
      std::copy_n(image + y * row, columns * s.block,
                  plane + ((y + s.pad_h) * width + s.pad_w) * s.block);
    }
  }
}

}  // namespace millrace::inline nn
