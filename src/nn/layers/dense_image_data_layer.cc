#include "nn/layers/dense_image_data_layer.h"

#include "data/images/image_pair_transform.h"

namespace millrace::inline nn {

std::unique_ptr<BatchTransform> DenseImageDataLayer::MakeTransform(const BatchStream& stream) {
  RecordView first;
  try {
    first = stream.FirstRecord();
  } catch (const Error& error) {
    throw FieldError("dense_image_data_param.source", error.what());
  }
  return PerRecord(
      std::make_unique<ImagePairTransform>(param_, context_.phase, stream.seed(), stream.stream(),
                                           stream.source_path(0), first),
      stream.batch_size());
}

namespace {
const RegisterLayer<DenseImageDataLayer> registered("DenseImageData");
}  // namespace

}  // namespace millrace::inline nn
