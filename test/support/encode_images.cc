#include "test/support/encode_images.h"

#include <png.h>

#include <cstdio>
#include <cstdlib>
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

}  // namespace millrace::test
