// Image files: decoding gives an image with the requested channels, identical each time, or
// a one-line error.
#include <zlib.h>

#include <cstring>
#include <memory>

#include "base/error.h"
#include "data/images/image_decoder.h"
#include "test/fuzz/support/fuzz.h"
#include "test/support/encode_images.h"

namespace millrace::fuzz {
namespace {

using test::EncodeJpeg;
using test::EncodePng;
using test::SmoothPixels;

constexpr size_t kPngMagicBytes = 8;

uint32_t BigEndianAt(const std::string& bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = at; i < at + 4; ++i) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

// Corrects the checksums of all chunks, so that damage passes the checksum test.
std::string WithChecksums(std::string png) {
  for (size_t at = kPngMagicBytes; at + 12 <= png.size();) {
    const uint64_t length = BigEndianAt(png, at);
    if (at + 12 + length > png.size()) break;
    const auto* type = reinterpret_cast<const Bytef*>(&png[at + 4]);
    const uLong sum = crc32(0, type, static_cast<uInt>(4 + length));
    for (int i = 0; i < 4; ++i) png[at + 8 + length + i] = static_cast<char>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
  return png;
}

bool IsAsAsked(const Image& image, ImageColor color) {
  const size_t values = size_t(image.channels) * image.height * image.width;
  if (image.values.size() != values) return false;
  if (color == ImageColor::kColor) return image.channels == 3;
  if (color == ImageColor::kGray) return image.channels == 1;
  return image.channels == 1 || image.channels == 3 || image.channels == 4;
}

bool TryDecode(std::string_view file, ImageColor color) {
  try {
    ImageDecoder first(color), second(color);
    const Image& image = first.Decode(file);
    return IsAsAsked(image, color) && image.values == second.Decode(file).values;
  } catch (const Error& error) {
    return std::string(error.what()).find('\n') == std::string::npos;
  }
}

}  // namespace

std::vector<std::string> Corpus() {
  const std::string palette("\x01\x02\x03\x11\x12\x13\x21\x22\x23", 9);
  Image indices = SmoothPixels(1, 6, 5);
  for (uint8_t& value : indices.values) value %= 3;
  // Colour types of the PNG specification: 0 grey, 2 RGB, 3 palette, 4 grey with alpha, 6 RGB with
  // alpha.
  return {EncodeJpeg(SmoothPixels(3, 17, 9)),
          EncodeJpeg(SmoothPixels(3, 17, 9), true),
          EncodeJpeg(SmoothPixels(1, 9, 17)),
          EncodeJpeg(SmoothPixels(4, 8, 8)),
          test::WithOrientation(EncodeJpeg(SmoothPixels(3, 9, 5)), 6),
          test::WithOrientation(EncodeJpeg(SmoothPixels(1, 9, 5)), 3, false),
          test::EncodeBmp(SmoothPixels(3, 7, 5)),
          test::EncodeBmp(SmoothPixels(1, 7, 5)),
          test::EncodePnm(SmoothPixels(3, 7, 5)),
          test::EncodePnm(SmoothPixels(1, 7, 5)),
          "P1\n3 2\n1 0 1\n0 1 1\n",
          test::EncodeTiff(SmoothPixels(3, 7, 5)),
          test::EncodeTiff(SmoothPixels(1, 7, 10), 16),
          test::SmallWebp(),
          EncodePng(SmoothPixels(3, 6, 5), {2}),
          EncodePng(SmoothPixels(3, 9, 9), {2, 8, true}),
          EncodePng(SmoothPixels(4, 6, 5), {6}),
          EncodePng(SmoothPixels(2, 6, 5), {4, 8, true}),
          EncodePng(SmoothPixels(1, 6, 5), {0}),
          EncodePng(SmoothPixels(6, 6, 5), {2, 16}),
          EncodePng(indices, {3, 8, false, palette, "\x80"})};
}

bool Target(const std::string& input) {
  const std::string file = input.size() % 2 == 0 ? input : WithChecksums(input);
  // An exact-size block, so that a sanitizer detects any read beyond it.
  const std::unique_ptr<char[]> block(new char[file.size()]);
  memcpy(block.get(), file.data(), file.size());
  const std::string_view exact(block.get(), file.size());
  return TryDecode(exact, ImageColor::kNative) && TryDecode(exact, ImageColor::kColor) &&
         TryDecode(exact, ImageColor::kGray);
}

}  // namespace millrace::fuzz
