#include "test/support/encode_images.h"

#include <png.h>

#include <cstdio>
#include <cstdlib>
#include <vector>
// jpeglib.h needs cstdio but does not include it.
#include <jpeglib.h>

namespace millrace::test {

Image SmoothPixels(int channels, int height, int width, int seed) {
  Image image;
  ResizeImage(channels, height, width, &image);
  size_t i = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        image.values[i++] = static_cast<uint8_t>(20 + 60 * c + 5 * y + 3 * x + 17 * seed);
      }
    }
  }
  return image;
}

std::string EncodeJpeg(const Image& pixels, bool progressive) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = pixels.width;
  info.image_height = pixels.height;
  info.input_components = pixels.channels;
  info.in_color_space = pixels.channels == 1   ? JCS_GRAYSCALE
                        : pixels.channels == 3 ? JCS_RGB
                                               : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  const size_t stride = pixels.values.size() / pixels.height;
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(&pixels.values[info.next_scanline * stride]);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const std::string file(reinterpret_cast<char*>(bytes), size);
  free(bytes);
  return file;
}

Image DecodeWithLibjpeg(const std::string& file, int channels) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&info);
  Image image;
  ResizeImage(channels, info.output_height, info.output_width, &image);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = &image.values[info.output_scanline * size_t{info.output_width} * channels];
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return image;
}

std::string EncodePng(const Image& pixels, const PngKind& kind) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp png, png_bytep bytes, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(png))
            ->append(reinterpret_cast<char*>(bytes), size);
      },
      nullptr);
  png_set_IHDR(png, info, pixels.width, pixels.height, kind.bits, kind.color_type,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!kind.palette.empty()) {
    png_set_PLTE(png, info, reinterpret_cast<const png_color*>(kind.palette.data()),
                 static_cast<int>(kind.palette.size() / 3));
  }
  if (!kind.palette_alpha.empty()) {
    png_set_tRNS(png, info, reinterpret_cast<const png_byte*>(kind.palette_alpha.data()),
                 static_cast<int>(kind.palette_alpha.size()), nullptr);
  }
  png_write_info(png, info);
  const int passes = kind.interlaced ? png_set_interlace_handling(png) : 1;
  const size_t stride = pixels.values.size() / pixels.height;
  for (int pass = 0; pass < passes; ++pass) {
    for (int y = 0; y < pixels.height; ++y) png_write_row(png, &pixels.values[y * stride]);
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

namespace {

// `number` in `size` bytes.
std::string Number(uint32_t number, int size, bool little = true) {
  std::string bytes;
  for (int i = 0; i < size; ++i) {
    bytes += static_cast<char>(number >> 8 * (little ? i : size - 1 - i));
  }
  return bytes;
}

struct TiffField {
  uint32_t tag, type, count, value;  // type 3: 2 bytes, 4: 4 bytes
};

// A TIFF's header and directory.
std::string TiffDirectory(const std::vector<TiffField>& fields, bool little = true) {
  std::string bytes = little ? "II" : "MM";
  bytes += Number(42, 2, little) + Number(8, 4, little);
  bytes += Number(static_cast<uint32_t>(fields.size()), 2, little);
  for (const TiffField& field : fields) {
    bytes += Number(field.tag, 2, little) + Number(field.type, 2, little);
    bytes += Number(field.count, 4, little);
    const bool is_short = field.type == 3 && field.count == 1;
    bytes += Number(field.value, is_short ? 2 : 4, little);
    if (is_short) bytes += Number(0, 2);
  }
  return bytes + Number(0, 4);
}

}  // namespace

std::string WithOrientation(const std::string& jpeg, int orientation, bool little) {
  const auto value = static_cast<uint32_t>(orientation);
  const std::string exif =
      std::string("Exif\0\0", 6) + TiffDirectory({{0x0112, 3, 1, value}}, little);
  const std::string size = Number(static_cast<uint32_t>(exif.size() + 2), 2, false);
  return jpeg.substr(0, 2) + "\xff\xe1" + size + exif + jpeg.substr(2);
}

std::string EncodeBmp(const Image& pixels) {
  const auto channels = static_cast<uint32_t>(pixels.channels);
  const uint32_t row_bytes = (pixels.width * channels + 3) / 4 * 4;
  const uint32_t palette_bytes = channels == 1 ? 1024 : 0, head = 14 + 40 + palette_bytes;
  const uint32_t bytes = row_bytes * pixels.height;
  std::string file = "BM" + Number(head + bytes, 4) + Number(0, 4) + Number(head, 4);
  file += Number(40, 4) + Number(pixels.width, 4) + Number(pixels.height, 4) + Number(1, 2);
  file += Number(8 * channels, 2) + Number(0, 4) + Number(bytes, 4) + std::string(16, '\0');
  for (uint32_t i = 0; i < palette_bytes / 4; ++i) file += Number(i * 0x010101, 4);
  for (int y = pixels.height - 1; y >= 0; --y) {
    for (int x = 0; x < pixels.width; ++x) {
      for (int c = pixels.channels - 1; c >= 0; --c) {
        file += static_cast<char>(pixels.values[(y * pixels.width + x) * channels + c]);
      }
    }
    file.append(row_bytes - pixels.width * channels, '\0');
  }
  return file;
}

std::string EncodePnm(const Image& pixels) {
  return (pixels.channels == 1 ? "P5\n" : "P6\n") + std::to_string(pixels.width) + " " +
         std::to_string(pixels.height) + "\n255\n" +
         std::string(pixels.values.begin(), pixels.values.end());
}

std::string EncodeTiff(const Image& pixels, int bits) {
  constexpr int kFields = 9, kHeadBytes = 8 + 2 + kFields * 12 + 4, kBitsBytes = 6;
  const auto channels = static_cast<uint32_t>(pixels.channels), depth = static_cast<uint32_t>(bits);
  const auto height = static_cast<uint32_t>(pixels.height);
  const auto bytes = static_cast<uint32_t>(pixels.values.size());
  const uint32_t width = pixels.width * 8u / depth, colors = channels == 1 ? 1 : 2;
  return TiffDirectory({{256, 4, 1, width},
                        {257, 4, 1, height},
                        {258, 3, channels, channels == 1 ? depth : kHeadBytes},
                        {259, 3, 1, 1},
                        {262, 3, 1, colors},
                        {273, 4, 1, kHeadBytes + kBitsBytes},
                        {277, 3, 1, channels},
                        {278, 4, 1, height},
                        {279, 4, 1, bytes}}) +
         Number(depth, 2) + Number(depth, 2) + Number(depth, 2) +
         std::string(pixels.values.begin(), pixels.values.end());
}

std::string SmallWebp() {
  constexpr char kFile[] =
      "\x52\x49\x46\x46\x3e\x00\x00\x00\x57\x45\x42\x50\x56\x50\x38\x4c\x31\x00\x00\x00"
      "\x2f\x02\x40\x00\x00\x2f\x40\x90\x6d\x1b\xda\x76\xc1\x13\x64\xdb\x86\xb6\x5d\xe1"
      "\x04\x92\x36\xdb\x5e\xff\xa1\xe7\x3f\xfe\xdf\xa6\xa2\xaa\x6c\x03\x35\x6d\x1b\xb0"
      "\xa1\xce\xbf\x98\x1a\xd1\xff\x98\x5f\x00";
  return std::string(kFile, sizeof(kFile) - 1);
}

}  // namespace millrace::test
