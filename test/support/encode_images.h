// Image files encoded by the image libraries themselves, for decoder tests.
#ifndef MILLRACE_TEST_SUPPORT_ENCODE_IMAGES_H_
#define MILLRACE_TEST_SUPPORT_ENCODE_IMAGES_H_

#include <string>

#include "data/images/image_decoder.h"

namespace millrace::test {

// Pixels in (H, W, C) order, determined by `seed`. They are smooth, so JPEG nearly preserves them.
Image SmoothPixels(int channels, int height, int width, int seed = 0);

// 1 channel: grey; 3: R,G,B, stored as YCbCr with halved chroma; 4: CMYK.
std::string EncodeJpeg(const Image& pixels, bool progressive = false);
// Decodes with libjpeg, in (H, W, C) order: R,G,B, or grey if `channels` is 1.
Image DecodeWithLibjpeg(const std::string& file, int channels);

struct PngKind {
  int color_type = 2;  // libpng's numbering; 2 is RGB
  int bits = 8;        // per sample; 16-bit samples are two bytes, the high one first
  bool interlaced = false;
  std::string palette = {};        // R,G,B of each entry
  std::string palette_alpha = {};  // alpha of the first palette entries
};
// The rows of `pixels` are stored as they are: packed if bits < 8.
std::string EncodePng(const Image& pixels, const PngKind& kind);

// `jpeg` with an EXIF segment behind its first marker that states an orientation, its numbers with
// the low byte first or last.
std::string WithOrientation(const std::string& jpeg, int orientation, bool little = true);

// Uncompressed images of 1 channel (grey) or 3 (R,G,B). BMPs of 1 channel have a palette.
std::string EncodeBmp(const Image& pixels);
std::string EncodePnm(const Image& pixels);
// With 16 bits, `pixels` has two bytes a value, the low one first: twice the width.
std::string EncodeTiff(const Image& pixels, int bits = 8);
// SmoothPixels(3, 2, 3) as a WebP without loss.
std::string SmallWebp();

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_ENCODE_IMAGES_H_
