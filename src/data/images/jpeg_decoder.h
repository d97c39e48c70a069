// Decodes JPEG with libjpeg-turbo and its defaults, which are also OpenCV's: the accurate integer
// transform and smooth upsampling of colours. CMYK and YCCK become blue, green and red, or grey, by
// OpenCV's arithmetic.
#ifndef MILLRACE_DATA_IMAGES_JPEG_DECODER_H_
#define MILLRACE_DATA_IMAGES_JPEG_DECODER_H_

#include <string_view>

#include "data/images/image_decoder.h"

namespace millrace::inline data {

// Whether `file` begins as a JPEG does.
inline bool IsJpeg(std::string_view file) { return file.starts_with("\xff\xd8\xff"); }

// Writes rows of pixels in (H, W, C) order to `image`. Returns whether the file ends before its
// last pixel. Throws Error, without naming the record. Thread-safe.
bool DecodeJpeg(std::string_view file, ImageColor color, Image* image);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_JPEG_DECODER_H_
