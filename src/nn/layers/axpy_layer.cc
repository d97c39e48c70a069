#include "nn/layers/axpy_layer.h"

#include "device/kernel.h"
#include "nn/layers/axpy_kernels.h"

namespace millrace::inline nn {

void AxpyLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Blob &a = *bottom[0], &x = *bottom[1];
  if (x.num_axes() < 2) {
    throw FieldError("bottom[1]", "has ", x.num_axes(), " axes, expected at least 2");
  }
  if (a.num_axes() < 2 || a.dim(0) != x.dim(0) || a.dim(1) != x.dim(1) || a.count(2) != 1) {
    throw FieldError("bottom[0]", "has shape ", ShapeText(a.shape()), ", expected ", x.dim(0), " ",
                     x.dim(1), ", one factor per channel of bottom[1]");
  }
  if (bottom[2]->shape() != x.shape()) {
    throw FieldError("bottom[2]", "has shape ", ShapeText(bottom[2]->shape()),
                     ", expected that of bottom[1], ", ShapeText(x.shape()));
  }
  top[0]->ReshapeLike(x);
}

void AxpyLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Launch(*context_.queue, bottom[0]->count(),
         AxpyOfChannels{bottom[1]->count(2), bottom[0]->data(), bottom[1]->data(),
                        bottom[2]->data(), top[0]->data()});
}

void AxpyLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                         const Blobs& bottom) {
  Queue& queue = *context_.queue;
  const int64_t channels = bottom[0]->count(), plane = bottom[1]->count(2);
  const float* const top_diff = top[0]->diff();
  if (propagate_down[0]) {
    Launch(queue, channels,
           AxpyFactorGradient{plane, bottom[1]->data(), top_diff, bottom[0]->diff()});
  }
  if (propagate_down[1]) {
    Launch(queue, channels,
           AxpyOfChannels{plane, bottom[0]->data(), top_diff, nullptr, bottom[1]->diff()});
  }
  if (propagate_down[2]) {
    queue.Copy(bottom[2]->diff(), top_diff, bottom[2]->count() * sizeof(float));
  }
}

namespace {

const RegisterLayer<AxpyLayer> registered("Axpy");

}  // namespace
}  // namespace millrace::inline nn
