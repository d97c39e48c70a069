#include "nn/layers/lstm_layer.h"

#include "device/kernel.h"
#include "nn/layers/lstm_kernels.h"

namespace millrace::inline nn {

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

namespace {
const RegisterLayer<LstmLayer> registered("LSTM");
}

}  // namespace millrace::inline nn
