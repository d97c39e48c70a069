#include "nn/layers/image_seg_data_layer.h"

#include "data/images/image_seg_transform.h"

namespace millrace::inline nn {

std::unique_ptr<BatchTransform> ImageSegDataLayer::MakeTransform(const BatchStream& stream) {
  RecordView first;
  try {
    first = stream.FirstRecord();
  } catch (const Error& error) {
    throw FieldError("image_data_param.source", error.what());
  }
  return PerRecord(
      std::make_unique<ImageSegTransform>(param_, context_.phase, stream.seed(), stream.stream(),
                                          stream.source_path(0), first),
      stream.batch_size());
}

namespace {
const RegisterLayer<ImageSegDataLayer> registered("ImageSegData");
}  // namespace

}  // namespace millrace::inline nn
