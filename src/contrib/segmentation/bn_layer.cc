// BN: batch normalisation with a learned slope and bias of each channel. Two forks of Caffe have
// different layers of this name; the fields of bn_param tell which one is meant. The channels are
// axis 1. Accepts any memory order and may work in place. Fillers are "constant" 0 by default, as
// there.
//
// Four arrays (yjxiong/caffe, PSPNet), also if no field is given; fields slope_filler, bias_filler,
// momentum, eps, frozen:
//   top = slope * (bottom - mean) / sqrt(variance + eps) + bias
//   blob 0 slope, 1 bias, 2 averaged mean, 3 averaged variance, each {1, channels, 1, 1}
// In training mean and (biased) variance are those of the batch, and each batch takes blobs 2 and 3
// to momentum * blob + (1 - momentum) * (mean, variance). In tests, and with `frozen`, they are
// blobs 2 and 3. These have no learning rate, whatever `param` says; with `frozen` no blob has one,
// and blob 3 begins at 1. `engine` is not read.
//
// Two arrays (SegNet); fields scale_filler, shift_filler, bn_mode:
//   LEARN      top = scale * (bottom - mean) / sqrt(variance + 1e-9) + shift
//   INFERENCE  top = scale * bottom + shift
//   blob 0 scale, 1 shift, each {1, channels, 1, 1}
// Mean and (biased) variance are those of the batch, in tests too. With LEARN, tops 1 and 2 are
// mean and variance, {1, channels, 1, 1}, if they are given; no gradient comes back from them.
//
// Gradients, with n = (bottom - mean) / sqrt(variance + eps) and means over a channel:
//   d slope = sum(d top * n)    d bias = sum(d top)
//   d bottom = slope / sqrt(variance + eps) * (d top - mean(d top) - n * mean(d top * n))
// without the two means where mean and variance are not the batch's.
//
// Averages are written in EndIteration, for the reasons in batch_norm_layer.h, which also hold
// here: every batch of every solver and machine has its part in both.
#include <type_traits>

#include "contrib/segmentation/bn_kernels.h"
#include "millrace/layer.h"
#include "nn/layers/channel_axes.h"
#include "nn/layers/channel_launch.h"
#include "nn/layers/channel_view.h"
#include "nn/layers/kept_bottom.h"
#include "nn/layers/layer_interfaces.h"
#include "nn/layers/norm/average_statistics.h"
#include "nn/layers/norm/normalize_kernels.h"
#include "nn/layers/norm/normalize_scale_kernels.h"

namespace millrace::inline contrib {
namespace {

class BnLayer : public Layer, public PreparesPass {
 public:
  BnLayer(const caffe::LayerParameter& param, const LayerContext& context);

  Arity arity() const override { return {1, 1, 1, 3}; }
  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"bn_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  // Counts the batch.
  void PreparePass() override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
  // Takes the batches since the last call into the averages.
  void EndIteration() override;

 private:
  // Where mean and variance come from.
  enum class Statistics { kBatch, kAverages, kNone };

  void SetUpAverages(const Shape& shape);
  void ComputeStatistics(const float* bottom, const Blobs& top);
  NormalizeScale<false> Channels() const;
  ChannelGradient GradientOf(int param) const;

  bool averages_ = false;  // four arrays
  Statistics statistics_ = Statistics::kBatch;
  float eps_ = 0, momentum_ = 0;
  ChannelView view_;
  KeptBottom kept_;
  Blob mean_, inverse_;            // of each channel
  Blob diff_mean_, product_mean_;  // of each channel, in the backward pass
  Blob mean_sum_, variance_sum_;   // what the batches since EndIteration add to the averages
  float decay_ = 1;                // the factor of the old averages
  int64_t batches_ = 0;            // since EndIteration, with the one of the present pass
};

constexpr int kSlope = 0, kBias = 1, kMean = 2, kVariance = 3;
constexpr float kSegNetEps = 1e-9f;

BnLayer::BnLayer(const caffe::LayerParameter& param, const LayerContext& context)
    : Layer(param, context),
      kept_(memory()),
      mean_(memory()),
      inverse_(memory()),
      diff_mean_(memory()),
      product_mean_(memory()),
      mean_sum_(memory()),
      variance_sum_(memory()) {}

void BnLayer::SetUp(const Blobs& bottom, const Blobs& top) {
  const caffe::BNParameter& param = param_.bn_param();
  if (bottom[0]->num_axes() < 2) {
    throw FieldError("bottom", "has ", bottom[0]->num_axes(), " axes, expected at least 2");
  }
  const bool of_two = param.has_scale_filler() || param.has_shift_filler() || param.has_bn_mode();
  const bool of_four = param.has_slope_filler() || param.has_bias_filler() ||
                       param.has_momentum() || param.has_eps() || param.has_frozen();
  if (of_two && of_four) {
    throw FieldError("bn_param",
                     "mixes scale_filler, shift_filler or bn_mode (SegNet) with slope_filler, "
                     "bias_filler, momentum, eps or frozen (PSPNet), expected those of one layer");
  }
  averages_ = !of_two;
  const bool learns = of_two && param.bn_mode() == caffe::BNParameter::LEARN;
  if (top.size() > 1 && !learns) {
    throw FieldError("top", top.size(),
                     " given, expected 1: only bn_mode LEARN of SegNet's BN has "
                     "mean and variance as tops");
  }
  const Shape shape = {1, bottom[0]->dim(1), 1, 1};
  AddParam(shape, of_two ? param.scale_filler() : param.slope_filler());
  AddParam(shape, of_two ? param.shift_filler() : param.bias_filler());
  eps_ = of_two ? kSegNetEps : param.eps();
  statistics_ = of_two && !learns ? Statistics::kNone : Statistics::kBatch;
  if (averages_) SetUpAverages(shape);
}

void BnLayer::SetUpAverages(const Shape& shape) {
  const caffe::BNParameter& param = param_.bn_param();
  if (!(eps_ >= 0)) throw FieldError("bn_param.eps", eps_, " given, expected at least 0");
  momentum_ = param.momentum();
  if (!(momentum_ >= 0 && momentum_ <= 1)) {
    throw FieldError("bn_param.momentum", momentum_, " given, expected 0 to 1");
  }
  if (param.frozen() || context_.phase == caffe::TEST) statistics_ = Statistics::kAverages;
  AddParam(shape, {});
  caffe::FillerParameter variance;  // of type "constant"
  variance.set_value(param.frozen() ? 1 : 0);
  AddParam(shape, variance);
  while (param_.param_size() < 4) param_.add_param();
  for (int i = param.frozen() ? kSlope : kMean; i <= kVariance; ++i) {
    param_.mutable_param(i)->set_lr_mult(0);
    param_.mutable_param(i)->set_decay_mult(0);
  }
}

void BnLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Blob& x = *bottom[0];
  const int64_t channels = params_[kSlope].blob->count();
  if (x.num_axes() < 2 || x.dim(1) != channels) {
    throw FieldError("bottom", ShapeText(x.shape()), " given, expected ", channels, " channels");
  }
  view_ = ChannelsOf(x);
  top[0]->ReshapeLike(x);
  for (size_t i = 1; i < top.size(); ++i) top[i]->Reshape({1, channels, 1, 1});
  kept_.Reshape(x, *top[0]);
  ChannelSumsMemory(context_);
  for (Blob* each : {&mean_, &inverse_, &diff_mean_, &product_mean_, &mean_sum_, &variance_sum_}) {
    if (each->shape() != Shape{channels}) each->Reshape({channels});
  }
}

void BnLayer::ComputeStatistics(const float* bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  if (statistics_ == Statistics::kAverages) {
    return Launch(queue, view_.channels(),
                  BnOfAverages{eps_, params_[kMean].blob->data(), params_[kVariance].blob->data(),
                               mean_.data(), inverse_.data()});
  }
  LaunchStatistics(
      context_, view_,
      BnVariance{view_.per_channel(), eps_, batches_ <= 1 ? 0 : momentum_, 1 - momentum_, bottom,
                 mean_.data(), inverse_.data(), top.size() > 2 ? top[2]->data() : nullptr,
                 averages_ ? mean_sum_.data() : nullptr,
                 averages_ ? variance_sum_.data() : nullptr});
  if (top.size() > 1) {
    queue.Copy(top[1]->data(), mean_.data(), view_.channels() * sizeof(float));
  }
}

void BnLayer::PreparePass() {
  if (!averages_ || statistics_ != Statistics::kBatch) return;
  decay_ *= momentum_;
  ++batches_;
}

NormalizeScale<false> BnLayer::Channels() const {
  return {mean_.data(), inverse_.data(), params_[kSlope].blob->data(), params_[kBias].blob->data()};
}

void BnLayer::Forward(const Blobs& bottom, const Blobs& top) {
  PrepareInForward();
  const float* const x = bottom[0]->data();
  const float* const slope = params_[kSlope].blob->data();
  const float* const bias = params_[kBias].blob->data();
  if (statistics_ != Statistics::kNone) ComputeStatistics(x, top);
  const auto run = [&](auto keep) {
    constexpr bool kKeep = decltype(keep)::value;
    float* const copy = kKeep ? kept_.copy() : nullptr;
    if (statistics_ == Statistics::kNone) {
      LaunchMap(*context_.queue, view_,
                ScaleForward<true, kKeep>{x, slope, bias, copy, top[0]->data()});
    } else {
      LaunchMap(*context_.queue, view_,
                NormalizeScaleForward<false, kKeep>{Channels(), x, copy, top[0]->data()});
    }
  };
  bottom[0] == top[0] ? run(std::true_type()) : run(std::false_type());
}

ChannelGradient BnLayer::GradientOf(int param) const {
  const Param& each = params_[param];
  if (!each.wanted) return {nullptr, false};
  return {each.blob->diff(), *each.has_gradient};
}

void BnLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                       const Blobs& bottom) {
  Queue& queue = *context_.queue;
  const float* const x = kept_.Values(*bottom[0]);
  const float* const d = top[0]->diff();
  const float* const slope_data = params_[kSlope].blob->data();
  const ChannelGradient slope = GradientOf(kSlope), bias = GradientOf(kBias);
  const bool learns = slope.diff != nullptr || bias.diff != nullptr;
  float* const dx = propagate_down[0] ? bottom[0]->diff() : nullptr;
  if (statistics_ == Statistics::kNone) {
    if (learns) LaunchSums(context_, view_, ScaleGradients{x, d, slope, bias});
    if (dx != nullptr) LaunchMap(queue, view_, ScaleBackward{d, slope_data, dx});
    return;
  }
  const bool of_batch = statistics_ == Statistics::kBatch;
  if (learns || (dx != nullptr && of_batch)) {
    LaunchSums(context_, view_,
               NormalizeScaleSums<false>{Channels(), view_.per_channel(), x, d, slope, bias,
                                         diff_mean_.data(), product_mean_.data()});
  }
  if (dx == nullptr) return;
  const auto backward = [&](auto global) {
    LaunchMap(queue, view_,
              NormalizeScaleBackward<false, decltype(global)::value>{
                  Channels(), x, d, diff_mean_.data(), product_mean_.data(), dx});
  };
  of_batch ? backward(std::false_type()) : backward(std::true_type());
}

void BnLayer::EndIteration() {
  if (batches_ == 0) return;
  const int64_t channels = view_.channels();
  AverageStatistics(*context_.queue, update_lock(), decay_,
                    {{channels, mean_sum_.data(), 0, params_[kMean].blob->data()},
                     {channels, variance_sum_.data(), 0, params_[kVariance].blob->data()}});
  decay_ = 1;
  batches_ = 0;
}

const RegisterLayer<BnLayer> bn_layer("BN");

}  // namespace
}  // namespace millrace::inline contrib
