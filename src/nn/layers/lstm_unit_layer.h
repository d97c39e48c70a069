// One step of an LSTM over N streams of D cells, given the sums of its gates (Zaremba, Sutskever
// 2014):
//   i = sigmoid(x_i),  f = sigmoid(x_f),  o = sigmoid(x_o),  g = tanh(x_g)
//   c = cont f c' + i g,   h = o tanh(c)
// Bottoms: c' {1, N, D}, the cells of the step before; x {1, N, 4D}, the sums of i, f, o and g of a
// stream one after the other; cont {1, N}, 0 where a sequence begins and otherwise 1. Tops: c and h
// {1, N, D}. No gradient flows to cont.
#ifndef MILLRACE_NN_LAYERS_LSTM_UNIT_LAYER_H_
#define MILLRACE_NN_LAYERS_LSTM_UNIT_LAYER_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

class LstmUnitLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {3, 3, 2, 2}; }
  bool AllowBackward(int bottom) const override { return bottom != 2; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  Blob gates_{memory()};  // of the last Forward
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LSTM_UNIT_LAYER_H_
