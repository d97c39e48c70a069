// The kernel (device/kernel.h) that computes the values of images from their bytes.
#ifndef MILLRACE_NN_LAYERS_DATA_PIXEL_KERNELS_H_
#define MILLRACE_NN_LAYERS_DATA_PIXEL_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "data/images/pixel_rule.h"

namespace millrace::inline nn {

// Computes values as PixelRule says. A row is a channel of an image: {images, channels}. The bits
// are those of a Transformer on every device, since a sum before a product cannot be fused with it.
struct PixelsToValues {
  int32_t channels, height, width;  // of an image, cropped
  int32_t mean_height, mean_width;  // of the mean image; 0: `mean` is one value per channel
  float scale;
  const uint8_t* pixels;
  const TransformChoice* choices;  // of each image
  const float* mean;
  float* values;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const int64_t channel = row % channels, plane = int64_t{height} * width;
    const TransformChoice choice = choices[row / channels];
    const uint8_t* const in = pixels + row * plane;
    float* const out = values + row * plane;
    const float constant = mean_height > 0 ? 0.0f : mean[channel];
    // At the crop's corner.
    const float* const means =
        mean_height > 0 ? mean + (channel * mean_height + choice.y) * mean_width + choice.x
                        : nullptr;
    team.ForEach(plane, [&](int64_t i) {
      const int32_t y = static_cast<int32_t>(i) / width, x = static_cast<int32_t>(i) - y * width;
      const int32_t from = choice.mirror ? width - 1 - x : x;
      const float average = means ? means[int64_t{y} * mean_width + from] : constant;
      out[i] = (static_cast<float>(in[int64_t{y} * width + from]) - average) * scale;
    });
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_DATA_PIXEL_KERNELS_H_
