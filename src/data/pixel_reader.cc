#include "data/pixel_reader.h"

#include "base/error.h"
#include "proto/parse.h"

namespace millrace {
namespace {

ImageColor ColorOf(const caffe::TransformationParameter& param) {
  if (param.force_color() && param.force_gray()) {
    throw FieldError("transform_param.force_gray",
                     "is given together with force_color, expected one of them");
  }
  if (param.force_color()) return ImageColor::kColor;
  return param.force_gray() ? ImageColor::kGray : ImageColor::kNative;
}

}  // namespace

PixelReader::PixelReader(const caffe::TransformationParameter& param) : decoder_(ColorOf(param)) {
  if (param.force_color()) forced_by_ = "force_color";
  if (param.force_gray()) forced_by_ = "force_gray";
}

DatumView PixelReader::Read(std::string_view database, std::string_view key,
                            std::string_view bytes) {
  DatumView datum = ReadDatum(database, key, bytes);
  try {
    if (datum.encoded) {
      const Image& image = decoder_.Decode(datum.data);
      datum.channels = image.channels;
      datum.height = image.height;
      datum.width = image.width;
      datum.encoded = false;
      datum.data = {reinterpret_cast<const char*>(image.values.data()), image.values.size()};
    } else if (forced_by_) {
      throw Error("holds raw pixels, but transform_param's ", forced_by_,
                  " only means something for encoded images");
    }
  } catch (const Error& error) {
    throw Error(RecordName(database, key), ": ", error.what());
  }
  return datum;
}

}  // namespace millrace
