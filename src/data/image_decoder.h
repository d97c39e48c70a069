// Decodes JPEG and PNG files, as `convert_imageset --encoded` stores them in Datums, to the pixels
// that Caffe gets from OpenCV's imdecode: 8 bits per value, colours in the order blue, green, red.
//
//              native (neither force field)      force_color     force_gray
//   JPEG       1 channel if grey, 3 otherwise    3               1 (luma)
//   PNG        1 if grey, 3 if colour or palette 3, alpha and    1, alpha and
//              4 with alpha (B,G,R,A)            transparency    transparency
//                                                dropped         dropped
//   16-bit PNG rejected (as in Caffe)            upper 8 bits    upper 8 bits
//
// Rejected with a specific error: CMYK and YCCK JPEGs, other formats, images of more than
// kMostImagePixels. A damaged image is rejected even where libjpeg would conceal the damage. Stray
// bytes between its segments, which occur in real data sets, change no pixel and are accepted. The
// EXIF orientation of a JPEG is ignored.
#ifndef MILLRACE_DATA_IMAGE_DECODER_H_
#define MILLRACE_DATA_IMAGE_DECODER_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace::inline data {

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

  // Returns values in (C, H, W) order, valid until the next call. Throws Error, without naming the
  // record, if `file` is not a supported image.
  const Image& Decode(std::string_view file);

 private:
  const ImageColor color_;
  Image interleaved_, planar_;  // memory reused by every call
};

// For the decoders of formats: sets the size of `image` for rows in (H, W, C) order. Throws Error
// if the image is empty or too large.
void ResizeImage(int channels, int64_t height, int64_t width, Image* image);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGE_DECODER_H_
