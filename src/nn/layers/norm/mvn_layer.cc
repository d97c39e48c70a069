// Mean-variance normalisation of each channel of each image, or with across_channels of each image:
//   top = (bottom - mean) / (sqrt(variance) + eps)
// with the variance sum((bottom - mean)^2) / values. With normalize_variance: false it only
// subtracts the mean. The gradient takes eps for 0, as Caffe's does.
//
// The bottom has at most 4 axes and the top always 4, as in Caffe: missing ones are of size 1.
// Accepts any memory order and may work in place.
#include "millrace/layer.h"
#include "nn/layers/channel_launch.h"
#include "nn/layers/channel_view.h"
#include "nn/layers/kept_bottom.h"
#include "nn/layers/norm/normalize_kernels.h"
#include "nn/layout.h"

namespace millrace::inline nn {
namespace {

class MvnLayer : public Layer {
 public:
  MvnLayer(const caffe::LayerParameter& param, const LayerContext& context);

  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"mvn_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  ChannelView view_;  // the channels of an image are channels of this view
  KeptBottom kept_;
  Blob mean_, inverse_, diff_mean_, product_mean_;  // of each channel of the view
};

// The rows that are normalised, as channels of a view of one image. Their order does not matter.
ChannelView RowsOf(const Blob& blob, bool across_channels) {
  const int64_t images = blob.dim(0), plane = blob.count(2);
  if (across_channels) return {1, images, blob.count(1), 1};
  const int64_t inner = blob.layout() == Layout::kPlain ? 1 : ViewOf(blob).inner;
  return {1, images * blob.dim(1) / inner, plane, inner};
}

MvnLayer::MvnLayer(const caffe::LayerParameter& param, const LayerContext& context)
    : Layer(param, context),
      kept_(memory()),
      mean_(memory()),
      inverse_(memory()),
      diff_mean_(memory()),
      product_mean_(memory()) {}

void MvnLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  Shape shape = bottom[0]->shape();
  if (shape.size() > 4) {
    throw FieldError("bottom", shape.size(), " axes given, expected at most 4");
  }
  shape.resize(4, 1);
  top[0]->Reshape(shape, bottom[0]->layout());
  kept_.Reshape(*bottom[0], *top[0]);
  ChannelSumsMemory(context_);
  view_ = RowsOf(*top[0], param_.mvn_param().across_channels());
  for (Blob* each : {&mean_, &inverse_, &diff_mean_, &product_mean_}) {
    each->Reshape({view_.channels()});
  }
}

void MvnLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  const caffe::MVNParameter& param = param_.mvn_param();
  const float* const x = bottom[0]->data();
  if (param.normalize_variance()) {
    LaunchStatistics(
        context_, view_,
        DeviationOfChannels{view_.per_channel(), param.eps(), x, mean_.data(), inverse_.data()});
  } else {
    LaunchSums(context_, view_,
               MeanOfChannels{view_.per_channel(), x, mean_.data(), inverse_.data()});
  }
  kept_.Keep(*bottom[0], queue);
  LaunchMap(queue, view_,
            NormalizeForward<false>{x, mean_.data(), inverse_.data(), nullptr, top[0]->data()});
}

void MvnLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                        const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Queue& queue = *context_.queue;
  const float* const x = kept_.Values(*bottom[0]);
  const float* const top_diff = top[0]->diff();
  LaunchSums(context_, view_,
             NormalizeSums{view_.per_channel(), x, mean_.data(), inverse_.data(), top_diff,
                           diff_mean_.data(), product_mean_.data()});
  if (!param_.mvn_param().normalize_variance()) {
    return LaunchMap(queue, view_, CenterBackward{top_diff, diff_mean_.data(), bottom[0]->diff()});
  }
  LaunchMap(queue, view_,
            NormalizeBackward{x, mean_.data(), inverse_.data(), top_diff, diff_mean_.data(),
                              product_mean_.data(), bottom[0]->diff()});
}

const RegisterLayer<MvnLayer> mvn_layer("MVN");

}  // namespace
}  // namespace millrace::inline nn
