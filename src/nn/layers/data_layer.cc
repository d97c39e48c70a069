#include "nn/layers/data_layer.h"

#include <optional>
#include <utility>

#include "data/image_transform.h"

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

std::unique_ptr<BatchTransform> DataLayer::MakeTransform(const BatchStream& stream) {
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
const RegisterLayer<DataLayer> registered("Data");
}  // namespace

}  // namespace millrace::inline nn
