#include "nn/layers/parameter_layer.h"

#include "device/kernel.h"
#include "nn/layers/shape_field.h"
#include "nn/layers/split_kernels.h"

namespace millrace::inline nn {

void ParameterLayer::SetUp(const Blobs&, const Blobs&) {
  if (!param_.parameter_param().has_shape()) {
    throw FieldError("parameter_param.shape", "missing");
  }
  AddParam(CheckedShape(param_.parameter_param().shape(), "parameter_param.shape"), {});
}

void ParameterLayer::Reshape(const Blobs&, const Blobs& top) {
  top[0]->ReshapeLike(*params_[0].blob);
}

void ParameterLayer::Forward(const Blobs&, const Blobs& top) {
  // A copy: layers that work in place on the top must not change the array.
  const Blob& array = *params_[0].blob;
  context_.queue->Copy(top[0]->data(), array.data(), array.count() * sizeof(float));
}

void ParameterLayer::Backward(const Blobs& top, const std::vector<bool>&, const Blobs&) {
  const Param& param = params_[0];
  if (!param.wanted) return;
  const int64_t count = param.blob->count();
  float* const diff = param.blob->diff();
  if (*param.has_gradient) {
    Launch(*context_.queue, count, SplitAdd{diff, top[0]->diff(), diff});
  } else {
    context_.queue->Copy(diff, top[0]->diff(), count * sizeof(float));
  }
}

namespace {
const RegisterLayer<ParameterLayer> registered("Parameter");
}

}  // namespace millrace::inline nn
