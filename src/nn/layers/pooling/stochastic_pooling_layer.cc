#include "nn/layers/pooling/stochastic_pooling_layer.h"

#include "device/kernel.h"
#include "nn/layers/pooling/pooling_kernels.h"
#include "nn/layers/pooling/stochastic_pooling_kernels.h"

namespace millrace::inline nn {

void StochasticPoolingLayer::SetUp(const Blobs& bottom, const Blobs& top) {
  PoolingLayer::SetUp(bottom, top);
  for (const int64_t pad : geometry_.pad) {
    if (pad == 0) continue;
    throw FieldError("pooling_param.pad", pad, " given, but stochastic pooling has no padding");
  }
}

void StochasticPoolingLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Shape shape = TopShape(bottom[0]->shape());
  top[0]->Reshape(shape);
  shape_ = ShapeForKernels(bottom[0]->shape(), shape);
  key_.Allocate(memory());
  const size_t bytes = top[0]->count() * sizeof(int32_t);
  if (chosen_.bytes() >= bytes) return;
  context_.queue->Synchronize();  // work may use the old memory
  chosen_ = Buffer(memory(), bytes);
}

void StochasticPoolingLayer::PreparePass() {
  if (context_.phase == caffe::TRAIN) key_.Store(context_, kRngPooling);
}

void StochasticPoolingLayer::Forward(const Blobs& bottom, const Blobs& top) {
  PrepareInForward();
  const float* const in = bottom[0]->data();
  float* const out = top[0]->data();
  const int64_t count = top[0]->count();
  if (context_.phase == caffe::TEST) {
    return Launch(*context_.queue, count, StochasticPoolMean{shape_, in, out});
  }
  Launch(*context_.queue, count,
         StochasticPoolDraw{shape_, key_.get(), in, out, chosen_.get<int32_t>()});
}

void StochasticPoolingLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                      const Blobs& bottom) {
  if (!propagate_down[0]) return;
  const float* const diff = top[0]->diff();
  float* const to = bottom[0]->diff();
  const int64_t count = bottom[0]->count();
  if (context_.phase == caffe::TEST) {
    Launch(*context_.queue, count,
           StochasticPoolMeanGradient{shape_, bottom[0]->data(), top[0]->data(), diff, to});
  } else {
    Launch(*context_.queue, count, MaxPoolBackward{shape_, diff, chosen_.get<int32_t>(), to});
  }
}

}  // namespace millrace::inline nn
