#include "data/images/image_encoder.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
// After cstdio, which jpeglib.h needs and does not include.
#include <jpeglib.h>

#include "base/error.h"

namespace millrace::inline data {
namespace {

// The library reports errors through a callback that must not return. It jumps back into Write,
// which has no locals with destructors.
class JpegWriter {
 public:
  JpegWriter() {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = Escape;
    errors_.base.emit_message = [](j_common_ptr, int) {};
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&info_);
    free(bytes_);
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  std::string Encode(const Image& image, int quality) {
    if (!Write(image, quality)) throw Error("cannot be encoded as JPEG: ", errors_.message);
    return std::string(reinterpret_cast<char*>(bytes_), size_);
  }

 private:
  struct Errors {
    jpeg_error_mgr base;  // first member: the library accesses this part only
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
  };

  bool Write(const Image& image, int quality) {
    if (setjmp(errors_.escape)) return false;
    jpeg_create_compress(&info_);
    jpeg_mem_dest(&info_, &bytes_, &size_);
    info_.image_width = static_cast<JDIMENSION>(image.width);
    info_.image_height = static_cast<JDIMENSION>(image.height);
    info_.input_components = image.channels;
    info_.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_EXT_BGR;
    jpeg_set_defaults(&info_);
    jpeg_set_quality(&info_, quality, TRUE);
    jpeg_start_compress(&info_, TRUE);
    const size_t stride = size_t(image.width) * image.channels;
    while (info_.next_scanline < info_.image_height) {
      JSAMPROW row = const_cast<JSAMPROW>(image.values.data() + info_.next_scanline * stride);
      jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
    return true;
  }

  [[noreturn]] static void Escape(j_common_ptr info) {
    auto* errors = reinterpret_cast<Errors*>(info->err);
    info->err->format_message(info, errors->message);
    longjmp(errors->escape, 1);
  }

  Errors errors_ = {};
  jpeg_compress_struct info_ = {};
  unsigned char* bytes_ = nullptr;
  unsigned long size_ = 0;
};

}  // namespace

std::string EncodeJpeg(const Image& image, int quality) {
  return JpegWriter().Encode(image, quality);
}

}  // namespace millrace::inline data
