#include "nn/layers/inner_product/biased_top.h"

#include "nn/layers/activation/relu_kernels.h"
#include "nn/layers/activation/relu_layer.h"
#include "nn/layers/channel_launch.h"

namespace millrace::inline nn {

bool BiasedTop::TryFuse(Layer* next) {
  auto* const relu = dynamic_cast<ReluLayer*>(next);
  if (relu == nullptr || relu_ != nullptr || !(relu->slope() >= 0)) return false;
  relu_ = relu;
  relu_->set_fused(true);
  return true;
}

void BiasedTop::Unfuse() {
  if (relu_ != nullptr) relu_->set_fused(false);
  relu_ = nullptr;
}

void BiasedTop::Forward(const LayerContext& context, const ChannelView& view, const float* bias,
                        float* top) const {
  Queue& queue = *context.queue;
  if (relu_ == nullptr) {
    if (bias != nullptr) LaunchMap(queue, view, BiasForward{top, bias, top});
  } else if (bias != nullptr) {
    LaunchMap(queue, view, BiasReluForward{relu_->slope(), bias, top});
  } else {
    Launch(queue, view.count(), ReluForward{relu_->slope(), top, top});
  }
}

void BiasedTop::Backward(const LayerContext& context, const ChannelView& view, const float* top,
                         float* top_diff, ChannelGradient bias) const {
  if (relu_ == nullptr) {
    if (bias.diff != nullptr) LaunchSums(context, view, BiasGradient{top_diff, bias});
  } else if (bias.diff != nullptr) {
    LaunchSums(context, view, BiasReluGradient{relu_->slope(), top, top_diff, bias});
  } else {
    Launch(*context.queue, view.count(), ReluBackward{relu_->slope(), top, top_diff, top_diff});
  }
}

}  // namespace millrace::inline nn
