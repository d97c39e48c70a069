#include "contrib/annotated/annotated_data_layer.h"

#include "contrib/annotated/annotated_transform.h"

namespace millrace::inline contrib {

std::unique_ptr<BatchTransform> AnnotatedDataLayer::MakeTransform(const BatchStream& stream) {
  RecordView first;
  try {
    first = stream.FirstRecord();
  } catch (const Error& error) {
    throw FieldError("data_param.source", error.what());
  }
  return std::make_unique<AnnotatedTransform>(param_, context_.phase, stream.seed(),
                                              stream.stream(), stream.source_path(0), first);
}

namespace {
const RegisterLayer<AnnotatedDataLayer> annotated_data_layer("AnnotatedData");
}  // namespace

}  // namespace millrace::inline contrib
