#include "data/images/pixel_reader.h"

#include <glog/logging.h>

#include "base/error.h"
#include "proto/parse.h"

namespace millrace::inline data {

ImageReading ImageReading::Of(const caffe::TransformationParameter& param) {
  if (param.force_color() && param.force_gray()) {
    throw FieldError("transform_param.force_gray",
                     "is given together with force_color, expected one of them");
  }
  ImageReading reading;
  if (param.force_color()) reading.color = ImageColor::kColor;
  if (param.force_gray()) reading.color = ImageColor::kGray;
  return reading;
}

DatumView PixelsOf(const Image& image) {
  DatumView view;
  view.channels = image.channels;
  view.height = image.height;
  view.width = image.width;
  view.data = {reinterpret_cast<const char*>(image.values.data()), image.values.size()};
  return view;
}

void WarnIfEarly(const ImageDecoder& decoder, std::string_view database, std::string_view key) {
  if (!decoder.ends_early()) return;
  LOG_FIRST_N(WARNING, 10) << RecordName(database, key) << ": " << kEndsEarly;
}

PixelReader::PixelReader(const ImageReading& reading)
    : reading_(reading), decoder_(reading.color) {}

DatumView PixelReader::Read(std::string_view database, std::string_view key,
                            std::string_view bytes) {
  DatumView datum = ReadDatum(database, key, bytes);
  if (!datum.encoded) {
    if (reading_.color != ImageColor::kNative) {
      LOG_FIRST_N(WARNING, 1) << RecordName(database, key) << ": holds raw pixels: force_color and "
                              << "force_gray only apply to encoded images";
    }
    return datum;
  }
  try {
    const Image* image = &decoder_.Decode(datum.data);
    WarnIfEarly(decoder_, database, key);
    if (reading_.height > 0) {
      resizer_.Resize(*image, reading_.height, reading_.width, &resized_);
      image = &resized_;
    }
    datum.channels = image->channels;
    datum.height = image->height;
    datum.width = image->width;
    datum.encoded = false;
    datum.data = {reinterpret_cast<const char*>(image->values.data()), image->values.size()};
  } catch (const Error& error) {
    throw Error(RecordName(database, key), ": ", error.what());
  }
  return datum;
}

}  // namespace millrace::inline data
