// Decodes image files, as lists name them and as `convert_imageset --encoded` stores them in
// Datums, to the pixels that Caffe gets from OpenCV: 8 bits per value, colours in the order blue,
// green, red.
//
//              native (neither force field)      force_color     force_gray
//   JPEG       1 channel if grey, 3 otherwise    3               1 (luma)
//   PNG        1 if grey, 3 if colour or palette 3, alpha and    1, alpha and
//              4 with alpha (B,G,R,A)            transparency    transparency
//                                                dropped         dropped
//   16-bit PNG rejected (as in Caffe)            upper 8 bits    upper 8 bits
//   others     as OpenCV, in the same way        3               1
//   EXIF's     ignored                           applied         applied
//   orientation
//
// Other formats than JPEG and PNG are read by OpenCV itself (data/images/opencv_images.h). Rejected
// with a specific error: unknown formats, images of more than kMaxImagePixels. A damaged image is
// rejected even where libjpeg would conceal the damage. Accepted are stray bytes between the
// segments of a JPEG, which occur in real data sets and change no pixel, and JPEGs that end early.
#ifndef MILLRACE_DATA_IMAGES_IMAGE_DECODER_H_
#define MILLRACE_DATA_IMAGES_IMAGE_DECODER_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace::inline data {

enum class ImageColor { kNative, kColor, kGray };

constexpr int64_t kMaxImagePixels = int64_t{1} << 26;

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

  // Whether the last image was a JPEG that ends before its last pixel. As from OpenCV, the pixels
  // that it lacks are grey, or coarse if it is progressive.
  bool ends_early() const { return ends_early_; }

 private:
  const ImageColor color_;
  bool ends_early_ = false;
  Image interleaved_, planar_;  // memory reused by every call
};

// What log lines say of images that end early.
constexpr char kEndsEarly[] =
    "is a JPEG that ends early; the pixels that it lacks are grey or coarse";

// For the decoders of formats: sets the size of `image` for rows in (H, W, C) order. Throws Error
// if the image is empty or too large.
void ResizeImage(int channels, int64_t height, int64_t width, Image* image);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_IMAGE_DECODER_H_
