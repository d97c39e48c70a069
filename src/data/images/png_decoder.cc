#include "data/images/png_decoder.h"

#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "data/images/orientation.h"

namespace millrace::inline data {
namespace {

// libpng reports errors through a callback that must not return. It jumps back into the method that
// called the library. Such a method has no locals with destructors, and nothing throws while the
// library is on the stack.
class PngReader {
 public:
  explicit PngReader(std::string_view file) : left_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    if (png_) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  void Read(ImageColor color, Image* image) {
    if (!info_) throw Error("cannot be decoded: out of memory");
    if (!ReadHeader()) Fail();
    if (png_get_bit_depth(png_, info_) == 16 && color == ImageColor::kNative) {
      throw Error(
          "is a PNG of 16 bits a value, which is not supported; transform_param's force_color or "
          "force_gray reduces it to 8");
    }
    const int channels = ChannelsFor(color);
    ResizeImage(channels, png_get_image_height(png_, info_), png_get_image_width(png_, info_),
                image);
    const size_t stride = size_t(channels) * image->width;
    if (!Convert(channels)) Fail();
    if (png_get_rowbytes(png_, info_) != stride) {
      throw Error("is a PNG whose kind of pixels is not supported");
    }
    if (!ReadRows(image->values.data(), stride, image->height)) Fail();
    if (color != ImageColor::kNative) MakeUpright(Orientation(), image);
  }

 private:
  [[noreturn]] void Fail() const { throw Error("is a damaged PNG: ", message_); }

  bool HasColor() const { return png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR; }

  int ChannelsFor(ImageColor color) const {
    if (color == ImageColor::kGray) return 1;
    if (color == ImageColor::kColor) return 3;
    // OpenCV ignores a transparent shade of grey.
    const bool transparent = HasColor() && png_get_valid(png_, info_, PNG_INFO_tRNS);
    const bool alpha = png_get_color_type(png_, info_) & PNG_COLOR_MASK_ALPHA;
    if (alpha || transparent) return 4;
    return HasColor() ? 3 : 1;
  }

  int Orientation() const {
    png_bytep exif = nullptr;
    png_uint_32 size = 0;
    if (!png_get_eXIf_1(png_, info_, &size, &exif)) return 1;
    return ExifOrientation({reinterpret_cast<const char*>(exif), size});
  }

  bool ReadHeader() {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_set_read_fn(png_, this, OnRead);
    png_read_info(png_, info_);
    return true;
  }

  bool Convert(int channels) {
    if (setjmp(png_jmpbuf(png_))) return false;
    const int type = png_get_color_type(png_, info_);
    if (png_get_bit_depth(png_, info_) == 16) png_set_strip_16(png_);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (!HasColor()) png_set_expand_gray_1_2_4_to_8(png_);
    if (channels < 4) {
      png_set_strip_alpha(png_);
    } else if (HasColor()) {
      png_set_tRNS_to_alpha(png_);
    }
    if (channels == 1) {
      if (HasColor()) png_set_rgb_to_gray(png_, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
    } else if (HasColor()) {
      png_set_bgr(png_);
    } else {
      png_set_gray_to_rgb(png_);
    }
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool ReadRows(uint8_t* rows, size_t stride, int height) {
    if (setjmp(png_jmpbuf(png_))) return false;
    for (int pass = 0; pass < passes_; ++pass) {
      for (int y = 0; y < height; ++y) png_read_row(png_, rows + y * stride, nullptr);
    }
    png_read_end(png_, info_);
    return true;
  }

  [[noreturn]] static void OnError(png_structp png, png_const_charp message) {
    auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
    snprintf(reader->message_, sizeof(reader->message_), "%s", message);
    png_longjmp(png, 1);
  }

  // Warnings concern unusual files, not damaged ones: libpng reports an error if pixels are
  // affected.
  static void OnWarning(png_structp, png_const_charp) {}

  static void OnRead(png_structp png, png_bytep out, size_t size) {
    auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > reader->left_.size()) png_error(png, "it ends early");
    memcpy(out, reader->left_.data(), size);
    reader->left_.remove_prefix(size);
  }

  std::string_view left_;  // unread part of the file
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  char message_[128] = "";
};

}  // namespace

void DecodePng(std::string_view file, ImageColor color, Image* image) {
  PngReader(file).Read(color, image);
}

}  // namespace millrace::inline data
