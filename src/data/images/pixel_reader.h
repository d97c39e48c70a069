// Reads a record of a database as the raw pixels that a Transformer takes: raw Datums in place,
// encoded Datums decoded (data/images/image_decoder.h) and, if asked, resized
// (data/images/resize.h).
#ifndef MILLRACE_DATA_IMAGES_PIXEL_READER_H_
#define MILLRACE_DATA_IMAGES_PIXEL_READER_H_

#include <string_view>

#include "data/datum_view.h"
#include "data/images/image_decoder.h"
#include "data/images/resize.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

// How encoded images become pixels.
struct ImageReading {
  ImageColor color = ImageColor::kNative;
  int height = 0, width = 0;  // the size that images get; 0 and 0: their own

  // The colours that force_color or force_gray require; images keep their size. Throws FieldError
  // if both are set.
  static ImageReading Of(const caffe::TransformationParameter& param);
};

// The pixels of an image in (C, H, W) order; valid as long as these.
DatumView PixelsOf(const Image& image);

// Logs a warning if the last image of `decoder`, a record, ends early; for the first ones only.
void WarnIfEarly(const ImageDecoder& decoder, std::string_view database, std::string_view key);

// Used by one thread at a time; copies are independent.
class PixelReader {
 public:
  explicit PixelReader(const ImageReading& reading = {});

  // Returns raw pixels. Channels, height and width of an encoded image are those of the image,
  // whatever the Datum states. Raw records are returned as they are: colour and size of `reading`
  // apply to encoded images only, as in Caffe; the first such record of the process is logged if
  // there is a colour to force. Valid until the next call and as long as `bytes`. Throws Error
  // naming `database` and `key` if the record is not a Datum, if its sizes do not fit, or if an
  // image cannot be decoded.
  DatumView Read(std::string_view database, std::string_view key, std::string_view bytes);

 private:
  ImageReading reading_;
  ImageDecoder decoder_;
  Resizer resizer_;
  Image resized_;  // memory reused by every call
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_PIXEL_READER_H_
