#include "data/images/image_record.h"

#include "base/error.h"
#include "base/file.h"
#include "proto/caffe.pb.h"

namespace millrace {
namespace {

// Of a file that can be decoded, whatever its name.
ImageFormat FormatOf(const std::string& bytes) {
  return bytes.starts_with("\x89PNG") ? ImageFormat::kPng : ImageFormat::kJpeg;
}

}  // namespace

ImageRecordMaker::ImageRecordMaker(const ImageRecordOptions& options)
    : options_(options), decoder_(options.gray ? ImageColor::kGray : ImageColor::kColor) {}

ImageRecord ImageRecordMaker::Make(const std::string& file, int32_t label) {
  std::string bytes = ReadFile(file);
  caffe::Datum datum;
  datum.set_label(label);
  try {
    const Image* image = &decoder_.Decode(bytes);
    if (options_.height > 0) {
      resizer_.Resize(*image, options_.height, options_.width, &resized_);
      image = &resized_;
    }
    const std::string size = StrCat(image->channels, " x ", image->height, " x ", image->width);
    if (options_.encoded) {
      const ImageFormat format = options_.format.value_or(FormatOf(bytes));
      const bool unchanged = options_.height == 0 && FormatOf(bytes) == format;
      datum.set_encoded(true);
      datum.set_data(unchanged ? std::move(bytes) : EncodeImage(*image, format));
    } else {
      datum.set_channels(image->channels);
      datum.set_height(image->height);
      datum.set_width(image->width);
      datum.set_data(image->values.data(), image->values.size());
      datum.set_encoded(false);
    }
    return {datum.SerializeAsString(), size};
  } catch (const Error& error) {
    throw Error(file, ": ", error.what());
  }
}

}  // namespace millrace
