// A simple recurrent layer over T steps: a RecurrentLayer with one gate. The state is h, and the
// outputs are o:
//   h_t = tanh(a_t),   o_t = tanh(W_o h_t + b_o)
// Further learnable arrays: W_o {D, D}, b_o {D}.
#include "device/kernel.h"
#include "nn/layers/channel_launch.h"
#include "nn/layers/elementwise/bias_kernels.h"
#include "nn/layers/recurrent/recurrent_kernels.h"
#include "nn/layers/recurrent/recurrent_layer.h"
#include "nn/matrix_product.h"

namespace millrace::inline nn {
namespace {

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

void RnnLayer::SetUp(const Blobs& bottom, const Blobs& top) {
  RecurrentLayer::SetUp(bottom, top);
  output_weights_ = params_.size();
  AddWeights({outputs(), outputs()});
  AddBias({outputs()});
}

void RnnLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  RecurrentLayer::Reshape(bottom, top);
  output_.ReshapeLike(*top[0]);
  hidden_diff_.ReshapeLike(*top[0]);
}

void RnnLayer::StepForward(int64_t t, const float*) {
  Launch(*context_.queue, state_count(), TanhForward{Gates(t), State(0, t + 1)});
}

void RnnLayer::StepBackward(int64_t t, const float*, const float* hidden_diff,
                            const float* next_cont, const float* next_hidden_diff) {
  Launch(*context_.queue, state_count(),
         TanhStepBackward{outputs(), State(0, t + 1), hidden_diff, next_cont, next_hidden_diff,
                          GateDiff(t)});
}

void RnnLayer::Output(const Blob& top) {
  Queue& queue = *context_.queue;
  float* const output = output_.data();
  Multiply(queue, false, true, steps() * streams(), outputs(), outputs(), State(0, 1),
           params_[output_weights_].blob->data(), false, output);
  LaunchMap(queue, ChannelView::Plain(output_.count() / outputs(), outputs(), 1),
            BiasForward{output, params_[output_weights_ + 1].blob->data(), output});
  Launch(queue, output_.count(), TanhForward{output, output});
  queue.Copy(top.data(), output, output_.count() * sizeof(float));
}

const float* RnnLayer::OutputBackward(const Blob& top) {
  Queue& queue = *context_.queue;
  const int index = static_cast<int>(output_weights_);
  const int64_t rows = steps() * streams();
  float* const diff = output_.diff();
  Launch(queue, output_.count(),
         TanhStepBackward{outputs(), output_.data(), top.diff(), nullptr, nullptr, diff});
  WeightGradient(index, outputs(), outputs(), rows, diff, State(0, 1));
  BiasGradientOf(index + 1, outputs(), diff);
  Multiply(queue, false, false, rows, outputs(), outputs(), diff, params_[index].blob->data(),
           false, hidden_diff_.data());
  return hidden_diff_.data();
}

const RegisterLayer<RnnLayer> rnn_layer("RNN");

}  // namespace
}  // namespace millrace::inline nn
