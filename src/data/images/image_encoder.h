#ifndef MILLRACE_DATA_IMAGES_IMAGE_ENCODER_H_
#define MILLRACE_DATA_IMAGES_IMAGE_ENCODER_H_

#include <string>

#include "data/images/image_decoder.h"

namespace millrace::inline data {

// Encodes JPEG with libjpeg-turbo.

// `image`: rows in (H, W, C) order, 1 channel or 3 (blue, green, red). Throws Error. Thread-safe.
std::string EncodeJpeg(const Image& image, int quality);

// Encodes PNG with libpng.

// `image`: rows in (H, W, C) order, 1 channel or 3 (blue, green, red). Throws Error. Thread-safe.
std::string EncodePng(const Image& image);

// Encodes images as OpenCV's imencode does by default.

enum class ImageFormat { kJpeg, kPng };

// The format of a file name's extension or of an --encode_type, without its dot, in any case: jpg,
// jpeg, png. Throws Error naming `type` if there is none.
ImageFormat ParseImageFormat(const std::string& type);

// The quality of JPEGs, OpenCV's default.
inline constexpr int kJpegQuality = 95;

// `image`: 1 channel, or 3 in the order blue, green, red; (C, H, W). JPEGs have this quality and,
// if coloured, halved chroma; PNGs decode to the same pixels. Throws Error, without naming the
// image. Thread-safe.
std::string EncodeImage(const Image& image, ImageFormat format, int quality = kJpegQuality);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_IMAGE_ENCODER_H_
