#include "nn/layers/l1_loss_layer.h"

#include "nn/layers/l1_loss_kernels.h"

namespace millrace::inline nn {

void L1LossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckSameCount(bottom, 1);
  ReshapeLoss(top, bottom[0]->count());
}

void L1LossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.Enqueue(*context_.queue, L1Terms{bottom[0]->data(), bottom[1]->data()},
               {false, static_cast<float>(bottom[0]->dim(0))}, top[0]->data());
}

void L1LossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                           const Blobs& bottom) {
  for (int i = 0; i < 2; ++i) {
    if (!propagate_down[i]) continue;
    Launch(*context_.queue, bottom[i]->count(),
           DifferenceBackward<L1Terms>{sum_.Scale(top[0]->diff()),
                                       {bottom[0]->data(), bottom[1]->data()},
                                       i == 0 ? 1.0f : -1.0f,
                                       bottom[i]->diff()});
  }
}

namespace {
const RegisterLayer<L1LossLayer> registered("L1Loss");
}  // namespace

}  // namespace millrace::inline nn
