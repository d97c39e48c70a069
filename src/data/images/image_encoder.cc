#include "data/images/image_encoder.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace millrace::inline data {
namespace {

Image WithInterleavedChannels(const Image& planar) {
  Image rows;
  ResizeImage(planar.channels, planar.height, planar.width, &rows);
  const size_t plane = size_t(planar.height) * planar.width;
  for (size_t i = 0; i < plane; ++i) {
    for (int c = 0; c < planar.channels; ++c) {
      rows.values[i * planar.channels + c] = planar.values[c * plane + i];
    }
  }
  return rows;
}

}  // namespace

ImageFormat ParseImageFormat(const std::string& type) {
  std::string lower = type;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "jpg" || lower == "jpeg") return ImageFormat::kJpeg;
  if (lower == "png") return ImageFormat::kPng;
  throw Error("'", type, "' is no format that images can be encoded in, expected jpg or png");
}

std::string EncodeImage(const Image& image, ImageFormat format, int quality) {
  const Image rows = WithInterleavedChannels(image);
  return format == ImageFormat::kJpeg ? EncodeJpeg(rows, quality) : EncodePng(rows);
}

}  // namespace millrace::inline data
