// Axpy and ChannelScale: products with one factor per channel or per position.
#include "contrib/classification/channel_scale_kernels.h"
#include "device/kernel.h"
#include "millrace/layer.h"

namespace millrace::inline contrib {
namespace {

// Scales the channels of a blob and adds another one, as squeeze-and-excitation networks do with
// their shortcut (Hu, Shen, Sun 2017):
//   top[n, c, ..] = a[n, c] x[n, c, ..] + y[n, c, ..]
//   dE/da[n, c] = sum of x[n, c, ..] dE/dtop[n, c, ..]    dE/dx = a dE/dtop    dE/dy = dE/dtop
// The bottoms are a {N, C}, which may have axes of size 1 behind these, x {N, C, ..}, and y with
// the shape of x. A layer of the SENet fork of Caffe.
class AxpyLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {3, 3, 1, 1}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
};

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

const RegisterLayer<AxpyLayer> axpy("Axpy");

// One scale for all channels of a position, as in happynear/caffe-windows. Bottoms: x {N, C, ..},
// scales (one for each position of each image: N times the size of one channel).
//   top[n][c][i] = scale[n][i] x[n][c][i]        (x, if not do_forward)
//   dE/dx[n][c][i] = scale[n][i] dE/dtop[n][c][i]  (dE/dtop, if not do_backward_feature)
//   dE/dscale[n][i] = sum over c of x[n][c][i] dE/dtop[n][c][i]  (0, if not do_backward_scale)
// It gives values that were divided by their norms these norms back. The fork's `global_scale`, a
// running mean of the scales, is refused.
class ChannelScaleLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"channel_scale_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  // Enqueues out = scale * in, or a copy.
  void Scale(bool scales, const Blobs& bottom, const float* in, float* out);

  int64_t channels_ = 0, area_ = 0;
};

void ChannelScaleLayer::SetUp(const Blobs&, const Blobs&) {
  if (param_.channel_scale_param().global_scale()) {
    throw FieldError("channel_scale_param.global_scale", "true given, expected false");
  }
}

void ChannelScaleLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Blob &x = *bottom[0], &scales = *bottom[1];
  if (x.num_axes() < 2) {
    throw FieldError("bottom[0]", "has ", x.num_axes(), " axes, expected at least 2");
  }
  channels_ = x.dim(1);
  area_ = x.count(2);
  if (scales.num_axes() == 0 || scales.dim(0) != x.dim(0) || scales.count() != x.dim(0) * area_) {
    throw FieldError("bottom[1]", "has shape ", ShapeText(scales.shape()), ", expected ", x.dim(0),
                     " images of ", area_, " scales, one for each position of bottom[0]");
  }
  top[0]->ReshapeLike(x);
}

void ChannelScaleLayer::Scale(bool scales, const Blobs& bottom, const float* in, float* out) {
  const int64_t count = bottom[0]->count();
  if (scales) {
    Launch(*context_.queue, count, ScaleChannels{channels_, area_, bottom[1]->data(), in, out});
  } else {
    context_.queue->Copy(out, in, count * sizeof(float));
  }
}

void ChannelScaleLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Scale(param_.channel_scale_param().do_forward(), bottom, bottom[0]->data(), top[0]->data());
}

void ChannelScaleLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                 const Blobs& bottom) {
  const caffe::ChannelScaleParameter& param = param_.channel_scale_param();
  Queue& queue = *context_.queue;
  if (propagate_down[0]) {
    Scale(param.do_backward_feature(), bottom, top[0]->diff(), bottom[0]->diff());
  }
  if (!propagate_down[1]) return;
  const int64_t count = bottom[1]->count();
  if (param.do_backward_scale()) {
    Launch(queue, count,
           ChannelScaleGradient{channels_, area_, bottom[0]->data(), top[0]->diff(),
                                bottom[1]->diff()});
  } else {
    queue.Fill(bottom[1]->diff(), 0, count * sizeof(float));
  }
}

const RegisterLayer<ChannelScaleLayer> channel_scale("ChannelScale");

}  // namespace
}  // namespace millrace::inline contrib
