// Batches of images as bytes, from which a device computes the values of a top. They are a quarter
// of the size of floats, and the host does not convert them.
#ifndef MILLRACE_DATA_IMAGES_PIXEL_RULE_H_
#define MILLRACE_DATA_IMAGES_PIXEL_RULE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::inline data {

struct ImageSize {
  int channels = 0, height = 0, width = 0;
  int64_t count() const { return int64_t{channels} * height * width; }
};

// Where the values of an output lie in its input.
struct TransformChoice {
  int x = 0, y = 0;  // corner of the crop
  bool mirror = false;
};

// How the values of a batch follow from its bytes, by the formula of data/transformer.h. The bytes
// are the images, cropped but not mirrored, {images, channels, height, width}, and from
// choices_at() on a TransformChoice for each.
struct PixelRule {
  int64_t images = 1;
  ImageSize size;  // of an image, cropped
  float scale = 1;
  std::vector<float> mean;  // one value per channel, or an image of the input's size
  ImageSize mean_size;      // of that image; empty: there is none

  int64_t values() const { return images * size.count(); }
  size_t choices_at() const {
    constexpr size_t kAlign = alignof(TransformChoice);
    return (static_cast<size_t>(values()) + kAlign - 1) / kAlign * kAlign;
  }
  size_t bytes() const { return choices_at() + images * sizeof(TransformChoice); }
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_PIXEL_RULE_H_
