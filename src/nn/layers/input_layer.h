// Tops of given shapes whose values somebody else writes: the inputs of a net
// that is fed by hand. input_param.shape: one for all tops, or one for each.
#ifndef MILLRACE_NN_LAYERS_INPUT_LAYER_H_
#define MILLRACE_NN_LAYERS_INPUT_LAYER_H_

#include <limits>

#include "nn/layer.h"

namespace millrace {

// There is nothing to compute, so one class serves every device.
class InputLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {0, 0, 1, std::numeric_limits<int>::max()}; }
  std::set<std::string> fields() const override { return {"input_param"}; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  // Leaves the tops as they are: whoever feeds the net may have changed them.
  void Reshape(const Blobs& bottom, const Blobs& top) override { (void)bottom, (void)top; }
  void Forward(const Blobs& bottom, const Blobs& top) override { (void)bottom, (void)top; }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    (void)top, (void)propagate_down, (void)bottom;
  }
};

}  // namespace millrace

#endif  // MILLRACE_NN_LAYERS_INPUT_LAYER_H_
