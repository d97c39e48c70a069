// A learnable array as a blob: top = the array, whose shape is parameter_param.shape. It begins at
// 0 unless weights are loaded. dE/darray = dE/dtop.
#ifndef MILLRACE_NN_LAYERS_PARAMETER_LAYER_H_
#define MILLRACE_NN_LAYERS_PARAMETER_LAYER_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

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

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_PARAMETER_LAYER_H_
