// Reads a record of a database as the raw pixels that a Transformer takes: raw Datums in place,
// encoded Datums decoded (data/image_decoder.h).
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
  // Images keep their channels.
  PixelReader() : PixelReader(caffe::TransformationParameter()) {}
  // Decodes as force_color or force_gray require. Throws FieldError if both are set.
  explicit PixelReader(const caffe::TransformationParameter& param);

  // Returns raw pixels. Channels, height and width of an encoded image are those of the image,
  // whatever the Datum states. Valid until the next call and as long as `bytes`. Throws Error
  // naming `database` and `key` if the record is not a Datum, if its sizes do not fit, if an image
  // cannot be decoded, or if a force field is set and the record holds raw pixels.
  DatumView Read(std::string_view database, std::string_view key, std::string_view bytes);

 private:
  const char* forced_by_ = nullptr;  // the force field that is set, or null
  ImageDecoder decoder_;
};

}  // namespace millrace

#endif  // MILLRACE_DATA_PIXEL_READER_H_
