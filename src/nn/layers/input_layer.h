// Tops of given shapes whose values the caller writes: the inputs of a net without a data layer.
// input_param.shape is given once for all tops or once per top. Without it, as in Caffe, the tops
// keep the shape of a new blob, of one value and no axes.
#ifndef MILLRACE_NN_LAYERS_INPUT_LAYER_H_
#define MILLRACE_NN_LAYERS_INPUT_LAYER_H_

#include <limits>

#include "millrace/layer.h"

namespace millrace::inline nn {

// Runs on every device, because it computes nothing.
class InputLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {0, 0, 1, std::numeric_limits<int>::max()}; }
  std::set<std::string> fields() const override { return {"input_param"}; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  // Keeps the shapes of the tops: the caller may have changed them.
  void Reshape(const Blobs& bottom, const Blobs& top) override { (void)bottom, (void)top; }
  void Forward(const Blobs& bottom, const Blobs& top) override { (void)bottom, (void)top; }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    (void)top, (void)propagate_down, (void)bottom;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_INPUT_LAYER_H_
