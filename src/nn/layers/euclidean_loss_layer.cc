#include "nn/layers/euclidean_loss_layer.h"

#include "nn/layers/euclidean_loss_kernels.h"

namespace millrace::inline nn {

void EuclideanLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckSameCount(bottom, 1);
  ReshapeLoss(top, bottom[0]->count());
}

void EuclideanLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.Enqueue(*context_.queue, EuclideanTerms{bottom[0]->data(), bottom[1]->data()},
               {false, 2 * static_cast<float>(bottom[0]->dim(0))}, top[0]->data());
}

void EuclideanLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                  const Blobs& bottom) {
  for (int i = 0; i < 2; ++i) {
    if (!propagate_down[i]) continue;
    Launch(*context_.queue, bottom[i]->count(),
           EuclideanBackward{sum_.Scale(top[0]->diff()), i == 0 ? 2.0f : -2.0f, bottom[0]->data(),
                             bottom[1]->data(), bottom[i]->diff()});
  }
}

namespace {
const RegisterLayer<EuclideanLossLayer> registered("EuclideanLoss");
}

}  // namespace millrace::inline nn
