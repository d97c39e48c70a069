#include "data/images/image_pair_reader.h"

#include <charconv>

#include "base/error.h"
#include "data/pixel_reader.h"

namespace millrace::inline data {

ImagePairReader::ImagePairReader(const Settings& settings)
    : settings_(settings),
      decoder_(settings.is_color ? ImageColor::kColor : ImageColor::kGray),
      label_decoder_(ImageColor::kGray) {}

void ImagePairReader::Read(std::string_view source, const RecordView& record) {
  const ImagePairFiles files = FilesOfPair(record.value);
  if (settings_.height > 0) {
    resampler_.Resize(decoder_.Decode(files.image), settings_.height, settings_.width,
                      Interpolation::kLinear, &image_);
  } else {
    image_ = decoder_.Decode(files.image);
  }
  WarnIfEarly(decoder_, source, record.key);
  if (settings_.labels == PairLabels::kImage) {
    ReadLabel(files.label);
    WarnIfEarly(label_decoder_, source, record.key);
    return;
  }
  int value = settings_.no_label;
  std::from_chars(files.label.data(), files.label.data() + files.label.size(), value);
  label_ = {1, image_.height, image_.width, {}};
  label_.values.assign(int64_t{image_.height} * image_.width, static_cast<uint8_t>(value));
}

void ImagePairReader::ReadLabel(std::string_view label) {
  const int factor = settings_.divide_labels;
  try {
    const Image& decoded = label_decoder_.Decode(label);
    if (settings_.height > 0) {
      resampler_.Resize(decoded, settings_.height / factor, settings_.width / factor,
                        Interpolation::kNearest, &label_);
    } else {
      label_ = decoded;
    }
  } catch (const Error& error) {
    throw Error("its label image ", error.what());
  }
  if (factor == 1 && (label_.height != image_.height || label_.width != image_.width)) {
    throw Error("has a label image of ", label_.height, " x ", label_.width, ", expected ",
                image_.height, " x ", image_.width, " like the image");
  }
}

}  // namespace millrace::inline data
