// Image files made by the libraries themselves, for tests of decoding.
#ifndef MILLRACE_TEST_SUPPORT_ENCODE_IMAGES_H_
#define MILLRACE_TEST_SUPPORT_ENCODE_IMAGES_H_

#include <string>

#include "data/image_decoder.h"

namespace millrace::test {

// Pixels in (H, W, C) order, a function of `seed`: smooth, so that JPEG keeps
// them about as they are.
Image SmoothPixels(int channels, int height, int width, int seed = 0);

// 1 channel: grey; 3: R,G,B, stored as YCbCr with halved chroma; 4: CMYK.
std::string EncodeJpeg(const Image& pixels, bool progressive = false);
// libjpeg's own decode in (H, W, C) order: R,G,B, or grey if `channels` is 1.
Image DecodeWithLibjpeg(const std::string& file, int channels);

struct PngKind {
  int color_type = 2;  // as libpng numbers them: RGB
  int bits = 8;        // a value; values of 16 are two bytes, the upper first
  bool interlaced = false;
  std::string palette = {};        // R,G,B of each entry
  std::string palette_alpha = {};  // of its first entries
};
// The rows of `pixels` are the file's own: packed where bits < 8.
std::string EncodePng(const Image& pixels, const PngKind& kind);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_ENCODE_IMAGES_H_
