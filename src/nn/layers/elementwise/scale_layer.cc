#include "nn/layers/elementwise/scale_layer.h"

#include <type_traits>

#include "nn/layers/channel_launch.h"
#include "nn/layers/elementwise/scale_kernels.h"
#include "nn/layers/norm/batch_norm_layer.h"

namespace millrace::inline nn {

ScaleLayer::ScaleLayer(const caffe::LayerParameter& param, const LayerContext& context)
    : Layer(param, context),
      axes_{"scale_param", param.scale_param().axis(), param.scale_param().num_axes()},
      kept_(memory()) {}

Layout ScaleLayer::BottomLayout(int, const Blob& bottom) const {
  return param_.bottom_size() > 1 ? Layout::kPlain : axes_.LayoutOf(bottom);
}

void ScaleLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::ScaleParameter& param = param_.scale_param();
  if (bottom.size() == 1) {
    caffe::FillerParameter filler = param.filler();
    if (!param.has_filler()) filler.set_value(1);  // of type "constant"
    AddParam(axes_.ShapeIn(*bottom[0]), filler);
  }
  if (!param.bias_term()) return;
  bias_ = static_cast<int>(params_.size());
  AddParam(ScaleOf(bottom).shape(), param.bias_filler());
}

void ScaleLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Shape& scale = ScaleOf(bottom).shape();
  view_ = axes_.View(*bottom[0], scale);
  if (bias_ >= 0 && params_[bias_].blob->shape() != scale) {
    throw FieldError("bottom[1]", ShapeText(scale), " given, but the bias has ",
                     ShapeText(params_[bias_].blob->shape()));
  }
  top[0]->ReshapeLike(*bottom[0]);
  kept_.Reshape(*bottom[0], *top[0]);
  ChannelSumsMemory(context_);
}

bool ScaleLayer::HasNumberPerChannelOf(const ChannelView& channels) const {
  return param_.bottom_size() == 1 && view_.outer == channels.outer &&
         view_.blocks == channels.blocks && view_.area == channels.area &&
         view_.inner == channels.inner && params_[0].blob->count() == channels.channels();
}

void ScaleLayer::Forward(const Blobs& bottom, const Blobs& top) {
  if (fused_into_ != nullptr) return;
  const float* const scale = ScaleOf(bottom).data();
  const auto run = [&](auto bias, auto keep) {
    constexpr bool kBias = decltype(bias)::value, kKeep = decltype(keep)::value;
    LaunchMap(*context_.queue, view_,
              ScaleForward<kBias, kKeep>{bottom[0]->data(), scale,
                                         kBias ? params_[bias_].blob->data() : nullptr,
                                         kKeep ? kept_.copy() : nullptr, top[0]->data()});
  };
  // Only the gradient of the scale needs the bottom.
  const bool keeps = bottom[0] == top[0] && (bottom.size() > 1 || params_[0].wanted);
  const auto with_bias = [&](auto bias) {
    keeps ? run(bias, std::true_type()) : run(bias, std::false_type());
  };
  bias_ >= 0 ? with_bias(std::true_type()) : with_bias(std::false_type());
}

void ScaleLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                          const Blobs& bottom) {
  Queue& queue = *context_.queue;
  const float* const top_diff = top[0]->diff();
  ChannelGradient scale{nullptr, false}, bias{nullptr, false};
  if (bottom.size() > 1) {
    if (propagate_down[1]) scale.diff = bottom[1]->diff();
  } else if (params_[0].wanted) {
    scale = {params_[0].blob->diff(), *params_[0].has_gradient};
  }
  if (bias_ >= 0 && params_[bias_].wanted) {
    bias = {params_[bias_].blob->diff(), *params_[bias_].has_gradient};
  }
  if (fused_into_ != nullptr) return fused_into_->ScaleGradientsOf(top_diff, scale, bias);
  if (scale.diff != nullptr) {
    LaunchSums(context_, view_, ScaleGradients{kept_.Values(*bottom[0]), top_diff, scale, bias});
  } else if (bias.diff != nullptr) {
    LaunchSums(context_, view_, BiasGradient{top_diff, bias});
  }
  if (!propagate_down[0]) return;
  LaunchMap(queue, view_, ScaleBackward{top_diff, ScaleOf(bottom).data(), bottom[0]->diff()});
}

namespace {

const RegisterLayer<ScaleLayer> scale_layer("Scale");

}  // namespace
}  // namespace millrace::inline nn
