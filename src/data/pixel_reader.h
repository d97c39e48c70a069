// From a record of a database to the raw pixels that a Transformer takes:
// Datums of pixels as they lie, encoded ones decoded (data/image_decoder.h).
#ifndef MILLRACE_DATA_PIXEL_READER_H_
#define MILLRACE_DATA_PIXEL_READER_H_

#include <string_view>

#include "data/datum_view.h"
#include "data/image_decoder.h"
#include "proto/caffe.pb.h"

namespace millrace {

// Used by one thread at a time; copies are independent.
class PixelReader {
 public:
  // Images keep the channels that they have.
  PixelReader() : PixelReader(caffe::TransformationParameter()) {}
  // As force_color or force_gray say. Throws FieldError if both are set.
  explicit PixelReader(const caffe::TransformationParameter& param);

  // The image's channels, height and width are its own, whatever the Datum says
  // of them. Valid until the next call and as long as `bytes`. Throws Error
  // naming `database` and `key`: not a Datum, sizes that do not fit, an image
  // that cannot be decoded, raw pixels where a force field wants an image.
  DatumView Read(std::string_view database, std::string_view key, std::string_view bytes);

 private:
  const char* forced_by_ = nullptr;  // the field that is set
  ImageDecoder decoder_;
};

}  // namespace millrace

#endif  // MILLRACE_DATA_PIXEL_READER_H_
