#include "nn/layers/lstm_unit_layer.h"

#include "device/kernel.h"
#include "nn/layers/lstm_kernels.h"

namespace millrace::inline nn {

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

namespace {
const RegisterLayer<LstmUnitLayer> registered("LSTMUnit");
}

}  // namespace millrace::inline nn
