// A learnable array as a blob: top = the array, whose shape is parameter_param.shape. It begins at
// 0 unless weights are loaded. dE/darray = dE/dtop.
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/fields.h"
#include "nn/layers/utility/split_kernels.h"

namespace millrace::inline nn {
namespace {

class ParameterLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {0, 0, 1, 1}; }
  std::set<std::string> fields() const override { return {"parameter_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
};

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

const RegisterLayer<ParameterLayer> parameter_layer("Parameter");

}  // namespace
}  // namespace millrace::inline nn
