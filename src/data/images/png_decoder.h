// Decodes PNG with libpng and the conversions that OpenCV requests.
#ifndef MILLRACE_DATA_IMAGES_PNG_DECODER_H_
#define MILLRACE_DATA_IMAGES_PNG_DECODER_H_

#include <string_view>

#include "data/images/image_decoder.h"

namespace millrace::inline data {

// Whether `file` begins as a PNG does.
inline bool IsPng(std::string_view file) { return file.starts_with("\x89PNG\r\n\x1a\n"); }

// Writes rows of pixels in (H, W, C) order to `image`. Throws Error, without naming the record.
// Thread-safe.
void DecodePng(std::string_view file, ImageColor color, Image* image);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_PNG_DECODER_H_
