// Encodes PNG with libpng.
#ifndef MILLRACE_DATA_IMAGES_PNG_ENCODER_H_
#define MILLRACE_DATA_IMAGES_PNG_ENCODER_H_

#include <string>

#include "data/image_decoder.h"

namespace millrace::inline data {

// `image`: rows in (H, W, C) order, 1 channel or 3 (blue, green, red). Throws Error. Thread-safe.
std::string EncodePng(const Image& image);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_PNG_ENCODER_H_
