#include "data/images/image_decoder.h"

#include <utility>

#include "base/error.h"
#include "data/images/jpeg_decoder.h"
#include "data/images/opencv_images.h"
#include "data/images/png_decoder.h"

namespace millrace::inline data {
namespace {

// With a constant number of channels, the compiler unrolls the inner loop.
template <int kChannels>
void SplitPlanes(const uint8_t* in, int64_t plane, uint8_t* out) {
  for (int64_t i = 0; i < plane; ++i) {
    for (int c = 0; c < kChannels; ++c) out[c * plane + i] = in[i * kChannels + c];
  }
}

void ToPlanes(const Image& from, Image* to) {
  ResizeImage(from.channels, from.height, from.width, to);
  const int64_t plane = int64_t{from.height} * from.width;
  if (from.channels == 3) {
    SplitPlanes<3>(from.values.data(), plane, to->values.data());
  } else {
    SplitPlanes<4>(from.values.data(), plane, to->values.data());
  }
}

}  // namespace

void ResizeImage(int channels, int64_t height, int64_t width, Image* image) {
  if (height <= 0 || width <= 0 || height > kMaxImagePixels / width) {
    throw Error("is an image of ", height, " x ", width, ", expected at most ", kMaxImagePixels,
                " pixels and at least one");
  }
  image->channels = channels;
  image->height = static_cast<int>(height);
  image->width = static_cast<int>(width);
  image->values.resize(channels * height * width);
}

const Image& ImageDecoder::Decode(std::string_view file) {
  ends_early_ = false;
  if (IsJpeg(file)) {
    ends_early_ = DecodeJpeg(file, color_, &interleaved_);
  } else if (IsPng(file)) {
    DecodePng(file, color_, &interleaved_);
  } else {
    DecodeWithOpenCv(file, color_, &interleaved_);
  }
  if (interleaved_.channels == 1) return interleaved_;
  ToPlanes(interleaved_, &planar_);
  return planar_;
}

}  // namespace millrace::inline data
