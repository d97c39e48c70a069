#include "data/images/jpeg_decoder.h"

#include <csetjmp>
#include <cstdio>
// After cstdio, which jpeglib.h needs and does not include.
#include <jerror.h>
#include <jpeglib.h>

#include <vector>

#include "base/error.h"
#include "data/images/orientation.h"

namespace millrace::inline data {
namespace {

// A value of `ink` on `black`; CMYK JPEGs hold both inverted.
int OnBlack(int ink, int black) { return black - ((255 - ink) * black >> 8); }

void CmykToBgr(const uint8_t* cmyk, int pixels, uint8_t* bgr) {
  for (; pixels > 0; --pixels, cmyk += 4, bgr += 3) {
    for (int c = 0; c < 3; ++c) bgr[c] = static_cast<uint8_t>(OnBlack(cmyk[2 - c], cmyk[3]));
  }
}

void CmykToGray(const uint8_t* cmyk, int pixels, uint8_t* gray) {
  constexpr int kBits = 14, kRed = 4899, kGreen = 9617, kBlue = 1868;  // of 1 << kBits
  for (; pixels > 0; --pixels, cmyk += 4, ++gray) {
    const int sum = OnBlack(cmyk[0], cmyk[3]) * kRed + OnBlack(cmyk[1], cmyk[3]) * kGreen +
                    OnBlack(cmyk[2], cmyk[3]) * kBlue;
    *gray = static_cast<uint8_t>((sum + (1 << (kBits - 1))) >> kBits);
  }
}

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

  // Returns whether the file ends before its last pixel.
  bool Read(ImageColor color, Image* image) {
    if (!ReadHeader()) Fail();
    const int orientation = color == ImageColor::kNative ? 1 : Orientation();
    const bool gray =
        color == ImageColor::kGray || (color == ImageColor::kNative && info_.num_components == 1);
    ResizeImage(gray ? 1 : 3, info_.image_height, info_.image_width, image);
    if (info_.num_components == 4) {
      info_.out_color_space = JCS_CMYK;
      cmyk_row_.resize(size_t{4} * image->width);
    } else {
      info_.out_color_space = gray ? JCS_GRAYSCALE : JCS_EXT_BGR;
    }
    if (!ReadRows(image)) Fail();
    MakeUpright(orientation, image);
    return errors_.pixels_missing;
  }

 private:
  struct Errors {
    jpeg_error_mgr base;  // first member: the library accesses this part only
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    bool ended, pixels_missing;  // the library has read the last byte; it needed more for pixels
  };

  [[noreturn]] void Fail() const { throw Error("is a damaged JPEG: ", errors_.message); }

  bool ReadHeader() {
    if (setjmp(errors_.escape)) return false;
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
    jpeg_save_markers(&info_, kExifMarker, 0xffff);
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  // That of the first EXIF segment.
  int Orientation() const {
    constexpr std::string_view kExif("Exif\0\0", 6);
    for (const jpeg_marker_struct* marker = info_.marker_list; marker; marker = marker->next) {
      const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
      if (data.starts_with(kExif)) return ExifOrientation(data.substr(kExif.size()));
    }
    return 1;
  }

  bool ReadRows(Image* image) {
    const size_t stride = size_t(image->channels) * image->width;
    if (setjmp(errors_.escape)) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      uint8_t* const out = image->values.data() + info_.output_scanline * stride;
      JSAMPROW row = cmyk_row_.empty() ? out : cmyk_row_.data();
      jpeg_read_scanlines(&info_, &row, 1);
      if (cmyk_row_.empty()) continue;
      (image->channels == 1 ? CmykToGray : CmykToBgr)(row, image->width, out);
    }
    return true;
  }

  [[noreturn]] static void Escape(j_common_ptr info) {
    auto* errors = reinterpret_cast<Errors*>(info->err);
    info->err->format_message(info, errors->message);
    longjmp(errors->escape, 1);
  }

  // Warnings (level -1) mean lost pixels, except for the codes below. At the end of the file the
  // library goes on as if there were an end marker, as it does for OpenCV.
  static void OnMessage(j_common_ptr info, int level) {
    if (level >= 0) return;
    const int code = info->err->msg_code;
    auto* errors = reinterpret_cast<Errors*>(info->err);
    if (errors->ended) errors->pixels_missing = true;
    if (code == JWRN_JPEG_EOF) errors->ended = true;
    if (errors->ended) return;
    const bool harmless =
        code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR;
    if (!harmless) Escape(info);
  }

  static constexpr int kExifMarker = JPEG_APP0 + 1;

  const std::string_view file_;
  std::vector<uint8_t> cmyk_row_;  // empty: the colours are others
  Errors errors_ = {};
  jpeg_decompress_struct info_ = {};
};

}  // namespace

bool DecodeJpeg(std::string_view file, ImageColor color, Image* image) {
  return JpegReader(file).Read(color, image);
}

}  // namespace millrace::inline data
