#include "data/jpeg_decoder.h"

#include <csetjmp>
#include <cstdio>
// After cstdio, which jpeglib.h needs and does not include.
#include <jerror.h>
#include <jpeglib.h>

#include "base/error.h"

namespace millrace::inline data {
namespace {

// libjpeg reports errors through callbacks that must not return. They jump back into the method
// that called the library. Such a method has no locals with destructors, and nothing throws while
// the library is on the stack.
class JpegReader {
 public:
  explicit JpegReader(std::string_view file) : file_(file) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = Escape;
    errors_.base.emit_message = OnMessage;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  void Read(ImageColor color, Image* image) {
    if (!ReadHeader()) Fail();
    if (info_.num_components == 4) {
      throw Error("is a JPEG of four colours (CMYK), which is not supported; convert it to RGB");
    }
    const bool gray =
        color == ImageColor::kGray || (color == ImageColor::kNative && info_.num_components == 1);
    ResizeImage(gray ? 1 : 3, info_.image_height, info_.image_width, image);
    info_.out_color_space = gray ? JCS_GRAYSCALE : JCS_EXT_BGR;
    if (!ReadRows(image->values.data(), size_t(image->channels) * image->width)) Fail();
  }

 private:
  struct Errors {
    jpeg_error_mgr base;  // first member: the library accesses this part only
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
  };

  [[noreturn]] void Fail() const { throw Error("is a damaged JPEG: ", errors_.message); }

  bool ReadHeader() {
    if (setjmp(errors_.escape)) return false;
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  bool ReadRows(uint8_t* rows, size_t stride) {
    if (setjmp(errors_.escape)) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = rows + info_.output_scanline * stride;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    return true;
  }

  [[noreturn]] static void Escape(j_common_ptr info) {
    auto* errors = reinterpret_cast<Errors*>(info->err);
    info->err->format_message(info, errors->message);
    longjmp(errors->escape, 1);
  }

  // Warnings (level -1) mean lost pixels, except for the codes below.
  static void OnMessage(j_common_ptr info, int level) {
    if (level >= 0) return;
    const int code = info->err->msg_code;
    const bool harmless =
        code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR;
    if (!harmless) Escape(info);
  }

  const std::string_view file_;
  Errors errors_ = {};
  jpeg_decompress_struct info_ = {};
};

}  // namespace

void DecodeJpeg(std::string_view file, ImageColor color, Image* image) {
  JpegReader(file).Read(color, image);
}

}  // namespace millrace::inline data
