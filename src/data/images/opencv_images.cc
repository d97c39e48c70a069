#include "data/images/opencv_images.h"

#include <string>

#include "base/error.h"
#include "base/module.h"
#include "data/opencv/decode.h"

namespace millrace::inline data {
namespace {

// The name of a format, for errors; none if the bytes have no beginning that is known here.
std::string_view FormatOf(std::string_view file) {
  constexpr struct {
    std::string_view magic, name;
  } kFormats[] = {{"BM", "a BMP"},
                  {{"II*\0", 4}, "a TIFF"},
                  {{"MM\0*", 4}, "a TIFF"},
                  {{"\0\0\0\fjP  ", 8}, "a JPEG 2000"},
                  {"\xff\x4f\xff\x51", "a JPEG 2000"},
                  {"#?RADIANCE", "an HDR"},
                  {"\x59\xa6\x6a\x95", "a Sun raster"},
                  {"\x76\x2f\x31\x01", "an OpenEXR"}};
  for (const auto& format : kFormats) {
    if (file.starts_with(format.magic)) return format.name;
  }
  if (file.starts_with("RIFF") && file.substr(0, 12).ends_with("WEBP")) return "a WebP";
  if (file.size() > 2 && file[0] == 'P' && file[1] >= '1' && file[1] <= '7' &&
      std::string_view(" \t\r\n").find(file[2]) != std::string_view::npos) {
    return "a PNM";
  }
  return "";
}

uint8_t* Place(void* image, int channels, int height, int width) {
  auto* const to = static_cast<Image*>(image);
  ResizeImage(channels, height, width, to);
  return to->values.data();
}

}  // namespace

void DecodeWithOpenCv(std::string_view file, ImageColor color, Image* image) {
  if (file.empty()) throw Error("is empty, expected an image");
  static const std::string reason = LoadModule("opencv");
  static const auto decode = reinterpret_cast<OpenCvDecode*>(ModuleSymbol("opencv", kOpenCvDecode));
  const std::string_view format = FormatOf(file);
  if (decode == nullptr) {
    throw Error(
        format.empty() ? "is neither a JPEG nor a PNG file" : StrCat("is ", format, " file"),
        "; what reads other images than JPEG and PNG is in ", reason);
  }
  const OpenCvColor asked = color == ImageColor::kNative  ? OpenCvColor::kOwn
                            : color == ImageColor::kColor ? OpenCvColor::kColor
                                                          : OpenCvColor::kGray;
  const OpenCvResult result = decode(file.data(), file.size(), asked, Place, image);
  if (result == OpenCvResult::kDeep) {
    throw Error("is ", format.empty() ? "an image" : StrCat(format, " file"),
                " of more than 8 bits a value, which is not supported; transform_param's "
                "force_color or force_gray reduces it to 8");
  }
  if (result == OpenCvResult::kUnreadable) {
    throw Error(format.empty()
                    ? "is not an image: neither a JPEG nor a PNG file, nor one that OpenCV reads"
                    : StrCat("is ", format,
                             " file that OpenCV cannot read: it is damaged, or of a "
                             "rare kind"));
  }
  if (image->channels != 1 && image->channels != 3 && image->channels != 4) {
    throw Error("is an image of ", image->channels, " channels, expected 1, 3 or 4");
  }
}

}  // namespace millrace::inline data
