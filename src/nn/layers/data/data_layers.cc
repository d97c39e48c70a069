#include "nn/layers/data/data_layers.h"

#include <glog/logging.h>

#include <optional>
#include <utility>

#include "data/images/image_transform.h"
#include "data/images/resize.h"
#include "data/row_transform.h"
#include "data/window/window_source.h"

namespace millrace::inline nn {

std::unique_ptr<RecordTransform> MakeImageTransform(const caffe::LayerParameter& layer,
                                                    caffe::Phase phase, const ImageReading& reading,
                                                    const char* source_field,
                                                    const BatchStream& stream) {
  RefuseAnnotatedFields(layer.transform_param(), true);
  PixelReader reader(reading);
  RecordView record;
  DatumView first;
  try {
    record = stream.FirstRecord();
    first = reader.Read(stream.source_path(0), record.key, record.value);
  } catch (const Error& error) {
    throw FieldError(source_field, error.what());
  }
  ImageChanges changes(layer.transform_param(), first.channels, stream.seed(), stream.stream());
  const ResizePolicy::Size size = changes.SizeOf(first.height, first.width);
  first.height = size.height, first.width = size.width;
  const Transformer transformer(layer.transform_param(), phase, stream.seed(), stream.stream(),
                                first);
  const bool any_size = stream.batch_size() == 1 && reading.height == 0 &&
                        !transformer.constant_size() && !changes.constant_size();
  if (!changes.any()) {
    return std::make_unique<ImageTransform>(reader, transformer, std::nullopt, any_size);
  }
  return std::make_unique<ImageTransform>(reader, transformer, std::move(changes), any_size);
}

namespace {

// Batches whose values are complete: copies.
class CopyBatch : public BatchTransform {
 public:
  // `shapes`: of all tops of the source, of which the layer has the first `tops`.
  CopyBatch(const std::vector<Shape>& shapes, size_t tops)
      : shapes_(shapes.begin(), shapes.begin() + static_cast<ptrdiff_t>(tops)) {}

  bool varies() const override { return false; }
  const std::vector<Shape>& first_shapes() const override { return shapes_; }
  const std::vector<Shape>& shapes() const override { return shapes_; }
  void Add(const std::string&, const RecordView& record, uint64_t) override {
    values_ = record.value.data();
  }
  void Write(float* const* tops) override { CopyRow(values_, shapes_, tops); }

 private:
  const std::vector<Shape> shapes_;
  const char* values_ = nullptr;
};

std::unique_ptr<BatchTransform> CopyBatches(const caffe::LayerParameter& layer,
                                            const BatchSource& source) {
  const std::string transform = layer.transform_param().ShortDebugString();
  if (!transform.empty() && transform != source.transform()) {
    throw FieldError("transform_param", "is { ", transform, " }, but ", source.path(),
                     " gives values with { ", source.transform(), " }, expected the same or none");
  }
  const auto tops = static_cast<size_t>(layer.top_size());
  if (tops > source.shapes().size()) {
    throw FieldError("top", tops, " given, but ", source.path(), " gives ", source.shapes().size());
  }
  return std::make_unique<CopyBatch>(source.shapes(), tops);
}

}  // namespace

std::unique_ptr<BatchTransform> DataLayer::MakeTransform(const BatchStream& stream) {
  if (const BatchSource* const source = stream.batch_source()) return CopyBatches(param_, *source);
  ImageReading reading = ImageReading::Of(param_.transform_param());
  if (param_.data_param().force_encoded_color()) {
    if (reading.color == ImageColor::kGray) {
      throw FieldError("data_param.force_encoded_color",
                       "is given together with transform_param's force_gray, expected one of them");
    }
    reading.color = ImageColor::kColor;
  }
  return PerRecord(MakeImageTransform(param_, context_.phase, reading, "data_param.source", stream),
                   stream.batch_size());
}

namespace {
const RegisterLayer<DataLayer> data("Data");
}  // namespace

std::unique_ptr<BatchTransform> ImageDataLayer::MakeTransform(const BatchStream& stream) {
  const caffe::ImageDataParameter& param = param_.image_data_param();
  if ((param.new_height() == 0) != (param.new_width() == 0)) {
    throw FieldError(
        param.new_height() == 0 ? "image_data_param.new_height" : "image_data_param.new_width",
        "is 0 or missing, expected new_height and new_width together");
  }
  if (param.new_height() > kMaxResizedSide || param.new_width() > kMaxResizedSide) {
    throw FieldError("image_data_param.new_height", "is ", param.new_height(), " and new_width is ",
                     param.new_width(), ", expected at most ", kMaxResizedSide);
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
const RegisterLayer<ImageDataLayer> image_data("ImageData");
}  // namespace

std::unique_ptr<BatchTransform> WindowDataLayer::MakeTransform(const BatchStream& stream) {
  return PerRecord(std::make_unique<WindowTransform>(param_, stream.seed(), stream.stream()),
                   stream.batch_size());
}

namespace {
const RegisterLayer<WindowDataLayer> window_data("WindowData");
}  // namespace
}  // namespace millrace::inline nn
