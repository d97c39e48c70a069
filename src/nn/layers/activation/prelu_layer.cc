// Parametric ReLU (He, Zhang, Ren, Sun, ICCV 2015): top = bottom where that is positive,
// slope * bottom elsewhere. The slopes are learned: blob 0 has one for each channel (axis 1), or
// with channel_shared a single one. Their default is 0.25.
// May work in place; accepts any memory order.
#include "millrace/layer.h"
#include "nn/layers/channel_axes.h"
#include "nn/layers/channel_launch.h"
#include "nn/layers/channel_view.h"
#include "nn/layers/elementwise/scale_kernels.h"
#include "nn/layers/kept_bottom.h"

namespace millrace::inline nn {
namespace {

class PreluLayer : public Layer {
 public:
  PreluLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), kept_(memory()) {}

  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"prelu_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  ChannelView view_;  // of one channel if the slope is shared
  KeptBottom kept_;
};

void PreluLayer::SetUp(const Blobs& bottom, const Blobs&) {
  if (bottom[0]->num_axes() < 2) {
    throw FieldError("bottom", bottom[0]->num_axes(), " axes given, expected at least 2");
  }
  const caffe::PReLUParameter& param = param_.prelu_param();
  caffe::FillerParameter filler = param.filler();
  if (!param.has_filler()) filler.set_value(0.25f);  // of type "constant"
  AddParam(param.channel_shared() ? Shape{} : Shape{bottom[0]->dim(1)}, filler);
}

void PreluLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Blob& x = *bottom[0];
  const bool shared = param_.prelu_param().channel_shared();
  if (x.num_axes() < 2 || (!shared && x.dim(1) != params_[0].blob->count())) {
    throw FieldError("bottom", ShapeText(x.shape()), " given, expected ", params_[0].blob->count(),
                     " channels");
  }
  view_ = shared ? ChannelView::Plain(1, 1, x.count()) : ChannelsOf(x);
  top[0]->ReshapeLike(x);
  kept_.Reshape(x, *top[0]);
  ChannelSumsMemory(context_);
}

void PreluLayer::Forward(const Blobs& bottom, const Blobs& top) {
  kept_.Keep(*bottom[0], *context_.queue);
  LaunchMap(*context_.queue, view_,
            PreluForward{bottom[0]->data(), params_[0].blob->data(), top[0]->data()});
}

void PreluLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                          const Blobs& bottom) {
  Queue& queue = *context_.queue;
  const float* const x = kept_.Values(*bottom[0]);
  const float* const top_diff = top[0]->diff();
  const Param& slope = params_[0];
  if (slope.wanted) {
    LaunchSums(context_, view_,
               PreluGradient{x, top_diff, {slope.blob->diff(), *slope.has_gradient}});
  }
  if (!propagate_down[0]) return;
  LaunchMap(queue, view_, PreluBackward{x, slope.blob->data(), top_diff, bottom[0]->diff()});
}

const RegisterLayer<PreluLayer> prelu_layer("PReLU");

}  // namespace
}  // namespace millrace::inline nn
