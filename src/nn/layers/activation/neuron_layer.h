// Base of layers that compute each value of their top from one value of their bottom, by a formula
// of neuron_kernels.h. They accept any shape and memory order. In place they keep a copy of the
// bottom if the slope needs it. (Caffe computes such a slope from the overwritten bottom; this code
// computes the right one.)
#ifndef MILLRACE_NN_LAYERS_ACTIVATION_NEURON_LAYER_H_
#define MILLRACE_NN_LAYERS_ACTIVATION_NEURON_LAYER_H_

#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/activation/neuron_kernels.h"
#include "nn/layers/kept_bottom.h"

namespace millrace::inline nn {

class NeuronLayer : public Layer {
 public:
  NeuronLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), kept_(memory()) {}

  bool MayWorkInPlace() const override { return true; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }
  void Reshape(const Blobs& bottom, const Blobs& top) override {
    top[0]->ReshapeLike(*bottom[0]);
    kept_.Reshape(*bottom[0], *top[0]);
  }

 protected:
  template <typename Formula>
  void RunForward(const Formula& formula, const Blobs& bottom, const Blobs& top) {
    if (formula.SlopeNeedsBottom()) kept_.Keep(*bottom[0], *context_.queue);
    Launch(*context_.queue, bottom[0]->count(),
           NeuronForward<Formula>{formula, bottom[0]->data(), top[0]->data()});
  }

  template <typename Formula>
  void RunBackward(const Formula& formula, const Blobs& top, const Blobs& bottom) {
    const float* const x =
        formula.SlopeNeedsBottom() ? kept_.Values(*bottom[0]) : bottom[0]->data();
    Launch(*context_.queue, bottom[0]->count(),
           NeuronBackward<Formula>{formula, x, top[0]->data(), top[0]->diff(), bottom[0]->diff()});
  }

 private:
  KeptBottom kept_;
};

// A layer with a single formula. SetUp of the subclass sets formula_.
template <typename Formula>
class FormulaLayer : public NeuronLayer {
 public:
  using NeuronLayer::NeuronLayer;

  void Forward(const Blobs& bottom, const Blobs& top) override {
    RunForward(formula_, bottom, top);
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (propagate_down[0]) RunBackward(formula_, top, bottom);
  }

 protected:
  Formula formula_{};
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ACTIVATION_NEURON_LAYER_H_
