#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/recurrent/recurrent_kernels.h"
#include "nn/layers/recurrent/recurrent_layer.h"

namespace millrace::inline nn {
namespace {

// A layer of long short-term memory (Hochreiter, Schmidhuber 1997) over T steps: a RecurrentLayer
// with the gates i, f, o, g of LSTMUnit. The state is h, then c; the outputs are h of each
// step. It has no learnable arrays of its own.
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

void LstmLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  RecurrentLayer::Reshape(bottom, top);
  cell_diff_.Reshape({streams(), outputs()});
}

void LstmLayer::StepForward(int64_t t, const float* cont) {
  Launch(*context_.queue, state_count(),
         LstmForward{.cells = outputs(),
                     .inputs = Gates(t),
                     .previous = State(1, t),
                     .cont = cont,
                     .gates = Gates(t),
                     .cell = State(1, t + 1),
                     .hidden = State(0, t + 1)});
}

void LstmLayer::StepBackward(int64_t t, const float* cont, const float* hidden_diff,
                             const float* next_cont, const float* next_hidden_diff) {
  Launch(*context_.queue, state_count(),
         LstmBackward{.cells = outputs(),
                      .gates = Gates(t),
                      .previous = State(1, t),
                      .cont = cont,
                      .cell = State(1, t + 1),
                      .cell_diff = next_cont != nullptr ? cell_diff_.data() : nullptr,
                      .hidden_diff = hidden_diff,
                      .next_cont = next_cont,
                      .next_hidden_diff = next_hidden_diff,
                      .input_diff = GateDiff(t),
                      .previous_diff = cell_diff_.data()});
}

void LstmLayer::Output(const Blob& top) {
  context_.queue->Copy(top.data(), State(0, 1), top.count() * sizeof(float));
}

const RegisterLayer<LstmLayer> lstm("LSTM");

// One step of an LSTM over N streams of D cells, given the sums of its gates (Zaremba, Sutskever
// 2014):
//   i = sigmoid(x_i),  f = sigmoid(x_f),  o = sigmoid(x_o),  g = tanh(x_g)
//   c = cont f c' + i g,   h = o tanh(c)
// Bottoms: c' {1, N, D}, the cells of the step before; x {1, N, 4D}, the sums of i, f, o and g of a
// stream one after the other; cont {1, N}, 0 where a sequence begins and otherwise 1. Tops: c and h
// {1, N, D}. No gradient flows to cont.
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

void LstmUnitLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const auto check = [&](int i, const Shape& expected) {
    if (bottom[i]->shape() == expected) return;
    throw FieldError(StrCat("bottom[", i, "]"), "has shape ", ShapeText(bottom[i]->shape()),
                     ", expected ", ShapeText(expected));
  };
  if (bottom[0]->num_axes() != 3 || bottom[0]->dim(0) != 1) {
    throw FieldError("bottom[0]", "has shape ", ShapeText(bottom[0]->shape()),
                     ", expected 1 x streams x cells");
  }
  const int64_t streams = bottom[0]->dim(1), cells = bottom[0]->dim(2);
  check(1, {1, streams, 4 * cells});
  check(2, {1, streams});
  gates_.ReshapeLike(*bottom[1]);
  for (Blob* blob : top) blob->ReshapeLike(*bottom[0]);
}

void LstmUnitLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Launch(*context_.queue, bottom[0]->count(),
         LstmForward{.cells = bottom[0]->dim(2),
                     .inputs = bottom[1]->data(),
                     .previous = bottom[0]->data(),
                     .cont = bottom[2]->data(),
                     .gates = gates_.data(),
                     .cell = top[0]->data(),
                     .hidden = top[1]->data()});
}

void LstmUnitLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                             const Blobs& bottom) {
  Launch(*context_.queue, bottom[0]->count(),
         LstmBackward{.cells = bottom[0]->dim(2),
                      .gates = gates_.data(),
                      .previous = bottom[0]->data(),
                      .cont = bottom[2]->data(),
                      .cell = top[0]->data(),
                      .cell_diff = top[0]->diff(),
                      .hidden_diff = top[1]->diff(),
                      .next_cont = nullptr,
                      .next_hidden_diff = nullptr,
                      .input_diff = propagate_down[1] ? bottom[1]->diff() : nullptr,
                      .previous_diff = propagate_down[0] ? bottom[0]->diff() : nullptr});
}

const RegisterLayer<LstmUnitLayer> lstm_unit("LSTMUnit");

}  // namespace
}  // namespace millrace::inline nn
