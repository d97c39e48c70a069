// JPEG and PNG files, as `convert_imageset --encoded` puts them into Datums,
// to the pixels that Caffe gets from OpenCV's imdecode: 8 bits a value, colours
// in the order blue, green, red.
//
//              native (neither force field)      force_color     force_gray
//   JPEG       1 channel if grey, 3 otherwise    3               1 (luma)
//   PNG        1 if grey, 3 if colour or palette 3, alpha and    1, alpha and
//              4 with alpha (B,G,R,A)            transparency    transparency
//                                                dropped         dropped
//   PNG of 16  refused (Caffe stops at them too) the upper 8     the upper 8
//
// Refused by name: CMYK and YCCK JPEGs, other formats, images of more than
// kMostImagePixels. A damaged image is refused even where libjpeg would paint
// over the damage; stray bytes between its segments, which real data sets
// contain, change no pixel and are let pass. A JPEG's EXIF orientation is not
// applied.
#ifndef MILLRACE_DATA_IMAGE_DECODER_H_
#define MILLRACE_DATA_IMAGE_DECODER_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace {

enum class ImageColor { kNative, kColor, kGray };

constexpr int64_t kMostImagePixels = int64_t{1} << 26;

struct Image {
  int channels = 0, height = 0, width = 0;
  std::vector<uint8_t> values;  // channels * height * width
};

// Used by one thread at a time.
class ImageDecoder {
 public:
  explicit ImageDecoder(ImageColor color) : color_(color) {}

  // Values in (C, H, W) order; valid until the next call. Throws Error, without
  // naming the record, for what is no image that is supported.
  const Image& Decode(std::string_view file);

 private:
  const ImageColor color_;
  Image interleaved_, planar_;  // reused from call to call
};

// For the decoders of formats: sizes `image` for their rows, in (H, W, C) order.
// Throws Error if that is too much.
void ResizeImage(int channels, int64_t height, int64_t width, Image* image);

}  // namespace millrace

#endif  // MILLRACE_DATA_IMAGE_DECODER_H_
