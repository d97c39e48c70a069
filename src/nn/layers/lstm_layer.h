// A layer of long short-term memory (Hochreiter, Schmidhuber 1997) over T steps: a RecurrentLayer
// with the gates i, f, o, g of lstm_unit_layer.h. The state is h, then c; the outputs are h of each
// step. It has no learnable arrays of its own.
#ifndef MILLRACE_NN_LAYERS_LSTM_LAYER_H_
#define MILLRACE_NN_LAYERS_LSTM_LAYER_H_

#include "nn/layers/recurrent_layer.h"

namespace millrace::inline nn {

class LstmLayer : public RecurrentLayer {
 public:
  using RecurrentLayer::RecurrentLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override;

 protected:
  int gates() const override { return 4; }
  int states() const override { return 2; }
  void StepForward(int64_t t, const float* cont) override;
  void StepBackward(int64_t t, const float* cont, const float* hidden_diff, const float* next_cont,
                    const float* next_hidden_diff) override;
  void Output(const Blob& top) override;
  const float* OutputBackward(const Blob& top) override { return top.diff(); }

 private:
  Blob cell_diff_{memory()};  // {N, D}: dE/dc that a step hands to the one before
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LSTM_LAYER_H_
