#include "data/images/image_pair_transform.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"
#include "data/datum_view.h"
#include "data/images/image_pairs.h"
#include "data/images/pixel_reader.h"
#include "data/images/resize.h"
#include "proto/parse.h"

namespace millrace::inline data {
namespace {

const char* const kParam = "dense_image_data_param.";

// Refuses one of two sizes without the other.
void CheckSizes(const char* height, uint32_t h, const char* width, uint32_t w) {
  if ((h == 0) != (w == 0)) {
    throw FieldError(StrCat(kParam, h == 0 ? height : width), "is 0 or missing, expected ", height,
                     " and ", width, " together");
  }
  if (h > kMaxResizedSide || w > kMaxResizedSide) {
    throw FieldError(StrCat(kParam, height), "is ", h, " and ", width, " is ", w,
                     ", expected at most ", kMaxResizedSide);
  }
}

void CheckDenseParam(const caffe::LayerParameter& layer) {
  const caffe::DenseImageDataParameter& param = layer.dense_image_data_param();
  CheckSizes("new_height", param.new_height(), "new_width", param.new_width());
  CheckSizes("crop_height", param.crop_height(), "crop_width", param.crop_width());
  const uint32_t factor = param.label_divide_factor();
  if (factor < 1 || factor > kMaxResizedSide) {
    throw FieldError(StrCat(kParam, "label_divide_factor"), "is ", factor, ", expected 1 to ",
                     kMaxResizedSide);
  }
  if (factor > 1 && param.new_height() < factor) {
    throw FieldError(StrCat(kParam, "label_divide_factor"), "is ", factor,
                     ", expected a new_height and a new_width of at least that");
  }
  if (factor > 1 && (param.new_width() < factor || param.crop_height() > 0)) {
    throw FieldError(StrCat(kParam, "label_divide_factor"), "is ", factor,
                     ", expected a new_width of at least that, and no crop");
  }
  if (param.has_mean_file()) {
    throw FieldError(StrCat(kParam, "mean_file"),
                     "given, expected mean_file in transform_param, which is the one that is read");
  }
  const caffe::TransformationParameter& transform = layer.transform_param();
  if (transform.mirror()) {
    throw FieldError("transform_param.mirror",
                     "true given, expected mirror in dense_image_data_param, which mirrors both "
                     "images of a pair");
  }
  RefuseAnnotatedFields(transform);
  if (transform.crop_size() > 0 || transform.crop_h() > 0 || transform.crop_w() > 0) {
    throw FieldError(
        "transform_param.crop_size",
        "or crop_h given, expected crop_height and crop_width in dense_image_data_param, which "
        "crop both images of a pair");
  }
}

ImagePairReader::Settings ReaderSettings(const caffe::DenseImageDataParameter& param) {
  ImagePairReader::Settings settings;
  settings.is_color = param.is_color();
  settings.height = static_cast<int>(param.new_height());
  settings.width = static_cast<int>(param.new_width());
  settings.divide_labels = static_cast<int>(param.label_divide_factor());
  return settings;
}

}  // namespace

ImagePairTransform::ImagePairTransform(const caffe::LayerParameter& layer, caffe::Phase phase,
                                       uint64_t seed, uint64_t stream, const std::string& path,
                                       const RecordView& first)
    : param_(layer.dense_image_data_param()),
      seed_(seed),
      stream_(stream),
      varies_(param_.batch_size() == 1 && param_.new_height() == 0 && param_.crop_height() == 0 &&
              !layer.transform_param().has_mean_file()),
      reader_(ReaderSettings(param_)) {
  CheckDenseParam(layer);
  try {
    reader_.Read(path, first);
  } catch (const Error& error) {
    throw FieldError(StrCat(kParam, "source"), RecordName(path, first.key), ": ", error.what());
  }
  const auto crop_height = static_cast<int>(param_.crop_height());
  const auto crop_width = static_cast<int>(param_.crop_width());
  if (crop_height > reader_.image().height || crop_width > reader_.image().width) {
    throw FieldError(StrCat(kParam, "crop_height"), "is ", crop_height, " and crop_width is ",
                     crop_width, ", more than the images of ", reader_.image().height, " x ",
                     reader_.image().width);
  }
  Cut(reader_.image(), {});
  transformer_ =
      std::make_unique<Transformer>(layer.transform_param(), phase, seed, stream, PixelsOf(cut_));
  TakeShapes(cut_.channels, cut_.height, cut_.width);
}

void ImagePairTransform::TakeShapes(int channels, int height, int width) {
  const auto factor = static_cast<int>(param_.label_divide_factor());
  shapes_ = {{channels, height, width}, {1, height / factor, width / factor}};
}

void ImagePairTransform::Read(const std::string& source, const RecordView& record, uint64_t) {
  try {
    reader_.Read(source, record);
    TakeShapes(reader_.image().channels, reader_.image().height, reader_.image().width);
  } catch (const Error& error) {
    throw Error(RecordName(source, record.key), ": ", error.what());
  }
}

ImagePairTransform::Choice ImagePairTransform::Choose(uint64_t item) const {
  Rng rng(seed_, {kRngTransform, stream_, item});
  Choice choice;
  choice.mirror = param_.mirror() && rng.Below(2) == 1;
  if (param_.crop_height() == 0) return choice;
  choice.y = static_cast<int>(rng.Below(reader_.image().height - param_.crop_height() + 1));
  choice.x = static_cast<int>(rng.Below(reader_.image().width - param_.crop_width() + 1));
  return choice;
}

void ImagePairTransform::Cut(const Image& image, const Choice& choice) {
  const bool crops = param_.crop_height() > 0;
  ResizeImage(image.channels, crops ? param_.crop_height() : image.height,
              crops ? param_.crop_width() : image.width, &cut_);
  uint8_t* to = cut_.values.data();
  for (int c = 0; c < image.channels; ++c) {
    for (int y = 0; y < cut_.height; ++y) {
      const int64_t row = (int64_t{c} * image.height + choice.y + y) * image.width;
      const uint8_t* const from = image.values.data() + row;
      // The image is mirrored before it is cropped.
      for (int x = choice.x; x < choice.x + cut_.width; ++x) {
        *to++ = from[choice.mirror ? image.width - 1 - x : x];
      }
    }
  }
}

void ImagePairTransform::Apply(const std::string& source, const RecordView& record, uint64_t item,
                               float* const* tops) {
  try {
    if (!varies_) reader_.Read(source, record);
    const auto crop_height = static_cast<int>(param_.crop_height());
    const auto crop_width = static_cast<int>(param_.crop_width());
    if (reader_.image().height < crop_height || reader_.image().width < crop_width) {
      throw Error("is ", reader_.image().height, " x ", reader_.image().width,
                  ", expected at least ", crop_height, " x ", crop_width, " for the crop");
    }
    const Choice choice = Choose(item);
    Cut(reader_.image(), choice);
    if (varies_) {
      transformer_->Write(PixelsOf(cut_), {}, tops[0]);
    } else {
      transformer_->Apply(PixelsOf(cut_), item, tops[0]);
    }
    Cut(reader_.label(), choice);
  } catch (const Error& error) {
    throw Error(RecordName(source, record.key), ": ", error.what());
  }
  std::copy(cut_.values.begin(), cut_.values.end(), tops[1]);
}

}  // namespace millrace::inline data
