#include "data/images/image_record.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/file.h"
#include "data/images/jpeg_decoder.h"
#include "data/images/png_decoder.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {
namespace {

// The format of a file that can be decoded, whatever its name; none: one that is read only.
std::optional<ImageFormat> FormatOf(const std::string& bytes) {
  if (IsPng(bytes)) return ImageFormat::kPng;
  if (IsJpeg(bytes)) return ImageFormat::kJpeg;
  return std::nullopt;
}

}  // namespace

ImageRecordMaker::ImageRecordMaker(const ImageRecordOptions& options)
    : options_(options), decoder_(options.gray ? ImageColor::kGray : ImageColor::kColor) {}

std::pair<int, int> ImageRecordMaker::SizeOf(int height, int width) const {
  if (options_.min_dim == 0 && options_.max_dim == 0) {
    return options_.height > 0 ? std::pair(options_.height, options_.width)
                               : std::pair(height, width);
  }
  float factor = 1;
  const int shorter = std::min(height, width), longer = std::max(height, width);
  if (options_.min_dim > 0 && shorter < options_.min_dim) {
    factor = static_cast<float>(options_.min_dim) / static_cast<float>(shorter);
  }
  if (options_.max_dim > 0 &&
      static_cast<int64_t>(factor * static_cast<float>(longer)) > options_.max_dim) {
    factor = static_cast<float>(options_.max_dim) / static_cast<float>(longer);
  }
  const auto scaled = [&](int side) {
    return std::max(1, static_cast<int>(std::lrint(double{factor} * side)));
  };
  return {scaled(height), scaled(width)};
}

ImageRecord ImageRecordMaker::Make(const std::string& file, int32_t label) {
  std::string bytes = ReadFile(file);
  caffe::Datum datum;
  datum.set_label(label);
  try {
    const Image* image = &decoder_.Decode(bytes);
    if (decoder_.ends_early()) LOG(WARNING) << file << ": " << kEndsEarly;
    const int file_height = image->height, file_width = image->width;
    const auto [height, width] = SizeOf(file_height, file_width);
    const bool resizes = options_.height > 0 || height != file_height || width != file_width;
    if (resizes) {
      resizer_.Resize(*image, height, width, &resized_);
      image = &resized_;
    }
    const std::string size = StrCat(image->channels, " x ", image->height, " x ", image->width);
    if (options_.encoded) {
      const std::optional<ImageFormat> own = FormatOf(bytes);
      const std::optional<ImageFormat> format = options_.format ? options_.format : own;
      const bool unchanged = !resizes && format == own;
      datum.set_encoded(true);
      datum.set_data(unchanged ? std::move(bytes)
                               : EncodeImage(*image, format.value_or(ImageFormat::kPng)));
    } else {
      datum.set_channels(image->channels);
      datum.set_height(image->height);
      datum.set_width(image->width);
      datum.set_data(image->values.data(), image->values.size());
      datum.set_encoded(false);
    }
    return {datum.SerializeAsString(), size, file_height, file_width};
  } catch (const Error& error) {
    throw Error(file, ": ", error.what());
  }
}

}  // namespace millrace::inline data
