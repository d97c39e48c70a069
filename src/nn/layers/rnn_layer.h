// A simple recurrent layer over T steps: a RecurrentLayer with one gate. The state is h, and the
// outputs are o:
//   h_t = tanh(a_t),   o_t = tanh(W_o h_t + b_o)
// Further learnable arrays: W_o {D, D}, b_o {D}.
#ifndef MILLRACE_NN_LAYERS_RNN_LAYER_H_
#define MILLRACE_NN_LAYERS_RNN_LAYER_H_

#include "nn/layers/recurrent_layer.h"

namespace millrace::inline nn {

class RnnLayer : public RecurrentLayer {
 public:
  using RecurrentLayer::RecurrentLayer;

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;

 protected:
  int gates() const override { return 1; }
  int states() const override { return 1; }
  void StepForward(int64_t t, const float* cont) override;
  void StepBackward(int64_t t, const float* cont, const float* hidden_diff, const float* next_cont,
                    const float* next_hidden_diff) override;
  void Output(const Blob& top) override;
  const float* OutputBackward(const Blob& top) override;

 private:
  // {T, N, D}: the outputs, which layers may change in place in the top, and the gradients by their
  // sums.
  Blob output_{memory()};
  Blob hidden_diff_{memory()};  // {T, N, D}
  size_t output_weights_ = 0;   // number of W_o among the parameters
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_RNN_LAYER_H_
