#include "data/images/image_seg_transform.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"
#include "data/datum_view.h"
#include "data/images/pixel_reader.h"
#include "data/images/resize.h"
#include "proto/parse.h"

namespace millrace::inline data {
namespace {

using caffe::ImageDataParameter;

// Type of layers with labels of 0 and 1.
const char* const kLabelmaps = "ImageLabelmapData";

void CheckSide(const std::string& field, uint32_t value) {
  if (value <= kMaxResizedSide) return;
  throw FieldError(field, "is ", value, ", expected at most ", kMaxResizedSide);
}

// Refuses one of two sizes without the other.
void CheckSides(const std::string& height, uint32_t h, const std::string& width, uint32_t w) {
  if ((h == 0) != (w == 0)) {
    throw FieldError(h == 0 ? height : width, "is 0 or missing, expected ", height, " and ", width,
                     " together");
  }
  CheckSide(height, h);
  CheckSide(width, w);
}

void CheckSegParam(const caffe::LayerParameter& layer) {
  const ImageDataParameter& param = layer.image_data_param();
  CheckSides("image_data_param.new_height", param.new_height(), "image_data_param.new_width",
             param.new_width());
  if (param.ignore_label() < 0 || param.ignore_label() > 255) {
    throw FieldError("image_data_param.ignore_label", "is ", param.ignore_label(),
                     ", expected 0 to 255, as pixels of label images");
  }
  const caffe::TransformationParameter& transform = layer.transform_param();
  RefuseAnnotatedFields(transform);
  if (transform.has_mean_file()) {
    throw FieldError("transform_param.mean_file",
                     "given, expected mean_value: images of this layer have no common size");
  }
  if (transform.crop_size() > 0 && (transform.crop_h() > 0 || transform.crop_w() > 0)) {
    throw FieldError("transform_param.crop_size",
                     "is given together with crop_h or crop_w, expected one of them");
  }
  CheckSide("transform_param.crop_size", transform.crop_size());
  CheckSides("transform_param.crop_h", transform.crop_h(), "transform_param.crop_w",
             transform.crop_w());
}

ImagePairReader::Settings ReaderSettings(const caffe::LayerParameter& layer) {
  const ImageDataParameter& param = layer.image_data_param();
  ImagePairReader::Settings settings;
  settings.labels = PairLabelsOf(layer);
  settings.is_color = param.is_color();
  settings.height = static_cast<int>(param.new_height());
  settings.width = static_cast<int>(param.new_width());
  settings.no_label = static_cast<uint8_t>(param.ignore_label());
  return settings;
}

}  // namespace

PairLabels PairLabelsOf(const caffe::LayerParameter& layer) {
  const ImageDataParameter::LabelType type = layer.image_data_param().label_type();
  if (layer.type() == kLabelmaps && type != ImageDataParameter::PIXEL) {
    throw FieldError("image_data_param.label_type",
                     "is not PIXEL, expected label images for this type of layer");
  }
  switch (type) {
    case ImageDataParameter::PIXEL:
      return PairLabels::kImage;
    case ImageDataParameter::IMAGE:
      return PairLabels::kNumber;
    case ImageDataParameter::NONE:
      break;
  }
  return PairLabels::kNone;
}

ImageSegTransform::ImageSegTransform(const caffe::LayerParameter& layer, caffe::Phase phase,
                                     uint64_t seed, uint64_t stream, const std::string& path,
                                     const RecordView& first)
    : param_(layer.image_data_param()),
      phase_(phase),
      seed_(seed),
      stream_(stream),
      mirror_(layer.transform_param().mirror()),
      binary_(layer.type() == kLabelmaps),
      reader_(ReaderSettings(layer)) {
  CheckSegParam(layer);
  caffe::TransformationParameter values = layer.transform_param();
  const bool square = values.crop_size() > 0;
  crop_height_ = static_cast<int>(square ? values.crop_size() : values.crop_h());
  crop_width_ = static_cast<int>(square ? values.crop_size() : values.crop_w());
  varies_ = param_.batch_size() == 1 && param_.new_height() == 0 && !crops();
  try {
    reader_.Read(path, first);
  } catch (const Error& error) {
    throw FieldError("image_data_param.source", RecordName(path, first.key), ": ", error.what());
  }
  // Means and scale only.
  values.clear_crop_size();
  values.clear_crop_h();
  values.clear_crop_w();
  values.clear_mirror();
  transformer_ =
      std::make_unique<Transformer>(values, phase, seed, stream, PixelsOf(reader_.image()));
  TakeShapes();
}

void ImageSegTransform::TakeShapes() {
  const Image& image = reader_.image();
  height_ = crops() ? crop_height_ : image.height;
  width_ = crops() ? crop_width_ : image.width;
  shapes_ = {{image.channels, height_, width_}, {1, height_, width_}, {1, 1, 2}};
}

void ImageSegTransform::CheckSize() const {
  const Image& image = reader_.image();
  if (binary_ && (image.height < crop_height_ || image.width < crop_width_)) {
    throw Error("is ", image.height, " x ", image.width, ", expected at least ", crop_height_,
                " x ", crop_width_, " for the crop");
  }
  if (crops() || (image.height == height_ && image.width == width_)) return;
  throw Error("is ", image.height, " x ", image.width, ", expected ", height_, " x ", width_,
              " like the first image");
}

void ImageSegTransform::Read(const std::string& source, const RecordView& record, uint64_t) {
  try {
    reader_.Read(source, record);
    TakeShapes();
  } catch (const Error& error) {
    throw Error(RecordName(source, record.key), ": ", error.what());
  }
}

ImageSegTransform::Part ImageSegTransform::Choose(uint64_t item) const {
  Rng rng(seed_, {kRngTransform, stream_, item});
  const Image& image = reader_.image();
  Part part;
  part.mirror = mirror_ && rng.Below(2) == 1;
  const auto corner = [&](int size, int crop) {
    const int most = std::max(size - crop, 0);
    return phase_ == caffe::TRAIN ? static_cast<int>(rng.Below(most + 1)) : most / 2;
  };
  if (crops()) {
    part.y = corner(image.height, crop_height_);
    part.x = corner(image.width, crop_width_);
  }
  part.height = std::min(image.height - part.y, height_);
  part.width = std::min(image.width - part.x, width_);
  return part;
}

void ImageSegTransform::Cut(const Image& image, const Part& part) {
  ResizeImage(image.channels, part.height, part.width, &cut_);
  uint8_t* to = cut_.values.data();
  for (int row = 0; row < image.channels * part.height; ++row) {
    const int channel = row / part.height, y = part.y + row % part.height;
    const int64_t begin = (int64_t{channel} * image.height + y) * image.width + part.x;
    to = std::copy_n(image.values.data() + begin, part.width, to);
  }
}

void ImageSegTransform::Apply(const std::string& source, const RecordView& record, uint64_t item,
                              float* const* tops) {
  // Rows of `values` into a top of `planes` planes that is `empty` elsewhere.
  const auto place = [&](const auto& values, int planes, const Part& part, float empty,
                         float* top) {
    std::fill_n(top, int64_t{planes} * height_ * width_, empty);
    for (int row = 0; row < planes * part.height; ++row) {
      const auto* const from = values.data() + int64_t{row} * part.width;
      const int64_t line = int64_t{row / part.height} * height_ + row % part.height;
      float* const to = top + line * width_;
      if (part.mirror) {
        std::reverse_copy(from, from + part.width, to + width_ - part.width);
      } else {
        std::copy_n(from, part.width, to);
      }
    }
  };
  try {
    if (!varies_) reader_.Read(source, record);
    CheckSize();
    const Part part = Choose(item);
    const int channels = reader_.image().channels;
    Cut(reader_.image(), part);
    values_.resize(cut_.values.size());
    transformer_->Write(PixelsOf(cut_), {}, values_.data());
    place(values_, channels, part, 0, tops[0]);
    Cut(reader_.label(), part);
    if (binary_) {
      for (uint8_t& value : cut_.values) value = value >= 128;
    }
    place(cut_.values, 1, part, static_cast<float>(param_.ignore_label()), tops[1]);
    tops[2][0] = static_cast<float>(std::min(reader_.image().height, height_));
    tops[2][1] = static_cast<float>(std::min(reader_.image().width, width_));
  } catch (const Error& error) {
    throw Error(RecordName(source, record.key), ": ", error.what());
  }
}

}  // namespace millrace::inline data
