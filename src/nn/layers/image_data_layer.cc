#include "nn/layers/image_data_layer.h"

#include <glog/logging.h>

#include "nn/layers/data_layer.h"

namespace millrace::inline nn {

std::unique_ptr<BatchTransform> ImageDataLayer::MakeTransform(const BatchStream& stream) {
  constexpr uint32_t kLongestSide = 1 << 14;
  const caffe::ImageDataParameter& param = param_.image_data_param();
  if ((param.new_height() == 0) != (param.new_width() == 0)) {
    throw FieldError(
        param.new_height() == 0 ? "image_data_param.new_height" : "image_data_param.new_width",
        "is 0 or missing, expected new_height and new_width together");
  }
  if (param.new_height() > kLongestSide || param.new_width() > kLongestSide) {
    throw FieldError("image_data_param.new_height", "is ", param.new_height(), " and new_width is ",
                     param.new_width(), ", expected at most ", kLongestSide);
  }
  if (param_.transform_param().force_color() || param_.transform_param().force_gray()) {
    LOG(WARNING) << "layer '" << name() << "': transform_param's force_color and force_gray are "
                 << "ignored, as in Caffe; image_data_param.is_color counts";
  }
  ImageReading reading;
  reading.color = param.is_color() ? ImageColor::kColor : ImageColor::kGray;
  reading.height = static_cast<int>(param.new_height());
  reading.width = static_cast<int>(param.new_width());
  return PerRecord(
      MakeImageTransform(param_, context_.phase, reading, "image_data_param.source", stream),
      stream.batch_size());
}

namespace {
const RegisterLayer<ImageDataLayer> registered("ImageData");
}  // namespace

}  // namespace millrace::inline nn
