// What recurrent layers (LSTM, RNN) have in common: T steps of N independent streams, each with a
// state that one step hands to the next.
//
// Bottoms:
//   x {T, N, ...}     the inputs of each step; all axes after the second are its I values
//   cont {T, N}       0 where a stream begins a new sequence and otherwise 1: the state before the
//                     step is multiplied by it
//   x_static {N, ...} optional: an input to all steps of a stream, S values
//   the state before step 1, {1, N, D} each, if recurrent_param.expose_hidden
// Tops: the outputs {T, N, D}, D = recurrent_param.num_output, and with expose_hidden the state
// after step T, {1, N, D} each.
//
// The sums of the gates of step t, with G gates of D values (G D values in all), are
//   a_t = W_x x_t + b + W_s x_static + W_h (cont_t h_{t-1})
// Learnable arrays, in the order of Caffe's files: W_x {G D, I}, b {G D}, W_s {G D, S} if there is
// a static input, W_h {G D, D}; then those of the layer's type.
//
// Without expose_hidden, the state before step 1 is the state after the last step of the pass
// before; it is 0 in the first pass, and after a change of N. It is not part of snapshots. As in
// Caffe, back-propagation is truncated to the T steps of a pass: no gradient flows to the state
// before step 1, nor from the state after step T.
#ifndef MILLRACE_NN_LAYERS_RECURRENT_RECURRENT_LAYER_H_
#define MILLRACE_NN_LAYERS_RECURRENT_RECURRENT_LAYER_H_

#include <vector>

#include "millrace/layer.h"

namespace millrace::inline nn {

class RecurrentLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override;
  std::set<std::string> fields() const override { return {"recurrent_param"}; }
  bool AllowBackward(int bottom) const override {
    return bottom == 0 || (bottom == 2 && has_static_);
  }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 protected:
  // G, and the number of arrays that form the state. The first is the hidden state h.
  virtual int gates() const = 0;
  virtual int states() const = 0;

  // Enqueues the non-linear part of step `t` (from 0): from Gates(t) and State(s, t) to
  // State(s, t + 1). May overwrite Gates(t).
  virtual void StepForward(int64_t t, const float* cont) = 0;
  // Given dE/dh after step t without what the next step adds, enqueues work that writes
  // GateDiff(t). `next_cont` and `next_hidden_diff` are cont and dE/d(cont h) of the next step;
  // null if there is none. Called for t = T - 1, ..., 0.
  virtual void StepBackward(int64_t t, const float* cont, const float* hidden_diff,
                            const float* next_cont, const float* next_hidden_diff) = 0;
  // Enqueues work that writes the outputs, given the states.
  virtual void Output(const Blob& top) = 0;
  // Enqueues the gradients of the parameters of Output. Returns dE/dh {T, N, D} by the outputs.
  virtual const float* OutputBackward(const Blob& top) = 0;

  int64_t steps() const { return steps_; }
  int64_t streams() const { return streams_; }
  int64_t outputs() const { return outputs_; }
  int64_t state_count() const { return streams_ * outputs_; }
  // {N, G D}.
  float* Gates(int64_t t) { return gates_.data() + t * state_count() * gates(); }
  float* GateDiff(int64_t t) { return gates_.diff() + t * state_count() * gates(); }
  // {N, D}: state array `s` before step t.
  float* State(int s, int64_t t) { return states_[s].data() + t * state_count(); }
  // Declares a parameter with recurrent_param's filler for weights or for biases.
  void AddWeights(const Shape& shape);
  void AddBias(const Shape& shape);
  // If parameter `i` is wanted, enqueues its gradient: a^T b, with a {rows, m}, b {rows, n}.
  void WeightGradient(int i, int64_t m, int64_t n, int64_t rows, const float* a, const float* b);
  // The same for a bias: the sums of the columns of diffs {T N, width}.
  void BiasGradientOf(int i, int64_t width, const float* diffs);

 private:
  bool exposed() const { return param_.recurrent_param().expose_hidden(); }
  int hidden_weights() const { return has_static_ ? 3 : 2; }
  void CheckBottoms(const Blobs& bottom) const;

  bool has_static_ = false;
  int64_t steps_ = 0, streams_ = 0;
  int64_t inputs_ = 0, static_inputs_ = 0, outputs_ = 0;  // I, S, D
  Blob gates_{memory()};           // {T, N, G D}, and the gradients by their sums
  std::vector<Blob> states_;       // {T + 1, N, D} each
  Blob continued_{memory()};       // {T, N, D}: cont h of each step
  Blob continued_diff_{memory()};  // {N, D}: the gradient by that of one step
  Blob static_sums_{memory()};     // {N, G D}: W_s x_static
  Blob ones_{memory()};            // {T N}
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_RECURRENT_RECURRENT_LAYER_H_
