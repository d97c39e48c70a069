// Bias: top = bottom[0] + bias. The bias matches num_axes axes of bottom[0] from `axis` on and is
// repeated along the others. It is learned (blob 0), or it is bottom[1].
//   d bias = sum(d top) over the values that a number belongs to    d bottom = d top
// May work in place. One number per channel takes any memory order, other shapes the plain one.
#include "nn/layers/channel_axes.h"
#include "nn/layers/channel_launch.h"
#include "nn/layers/elementwise/bias_kernels.h"

namespace millrace::inline nn {
namespace {

class BiasLayer : public Layer {
 public:
  BiasLayer(const caffe::LayerParameter& param, const LayerContext& context);

  Arity arity() const override { return {.min_bottom = 1, .max_bottom = 2}; }
  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"bias_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override;

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  const Blob& BiasOf(const Blobs& bottom) const {
    return bottom.size() > 1 ? *bottom[1] : *params_[0].blob;
  }

  const MatchedAxes axes_;
  ChannelView view_;
};

BiasLayer::BiasLayer(const caffe::LayerParameter& param, const LayerContext& context)
    : Layer(param, context),
      axes_{"bias_param", param.bias_param().axis(), param.bias_param().num_axes()} {}

Layout BiasLayer::BottomLayout(int, const Blob& bottom) const {
  return param_.bottom_size() > 1 ? Layout::kPlain : axes_.LayoutOf(bottom);
}

void BiasLayer::SetUp(const Blobs& bottom, const Blobs&) {
  if (bottom.size() == 1) AddParam(axes_.ShapeIn(*bottom[0]), param_.bias_param().filler());
}

void BiasLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  view_ = axes_.View(*bottom[0], BiasOf(bottom).shape());
  top[0]->ReshapeLike(*bottom[0]);
  ChannelSumsMemory(context_);
}

void BiasLayer::Forward(const Blobs& bottom, const Blobs& top) {
  LaunchMap(*context_.queue, view_,
            BiasForward{bottom[0]->data(), BiasOf(bottom).data(), top[0]->data()});
}

void BiasLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                         const Blobs& bottom) {
  Queue& queue = *context_.queue;
  const float* const top_diff = top[0]->diff();
  ChannelGradient bias{nullptr, false};
  if (bottom.size() > 1) {
    if (propagate_down[1]) bias.diff = bottom[1]->diff();
  } else if (params_[0].wanted) {
    bias = {params_[0].blob->diff(), *params_[0].has_gradient};
  }
  if (bias.diff != nullptr) {
    LaunchSums(context_, view_, BiasGradient{top_diff, bias});
  }
  if (propagate_down[0] && bottom[0] != top[0]) {
    queue.Copy(bottom[0]->diff(), top_diff, bottom[0]->count() * sizeof(float));
  }
}

const RegisterLayer<BiasLayer> bias_layer("Bias");

}  // namespace
}  // namespace millrace::inline nn
