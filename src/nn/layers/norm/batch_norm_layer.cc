#include "nn/layers/norm/batch_norm_layer.h"

#include <cmath>
#include <span>
#include <type_traits>

#include "collective/collective.h"
#include "nn/layers/activation/relu_layer.h"
#include "nn/layers/channel_axes.h"
#include "nn/layers/channel_launch.h"
#include "nn/layers/elementwise/scale_layer.h"
#include "nn/layers/norm/average_statistics.h"
#include "nn/layers/norm/normalize_kernels.h"

namespace millrace::inline nn {
namespace {

constexpr int kMean = 0, kVariance = 1, kWeight = 2;

}  // namespace

BatchNormLayer::BatchNormLayer(const caffe::LayerParameter& param, const LayerContext& context)
    : Layer(param, context),
      kept_(memory()),
      mean_(memory()),
      inverse_(memory()),
      diff_mean_(memory()),
      product_mean_(memory()),
      mean_sum_(memory()),
      variance_sum_(memory()),
      no_bias_(memory()) {}

void BatchNormLayer::SetUp(const Blobs& bottom, const Blobs&) {
  if (bottom[0]->num_axes() < 1) throw FieldError("bottom", "0 axes given, expected at least 1");
  const caffe::BatchNormParameter& param = param_.batch_norm_param();
  global_ = param.has_use_global_stats() ? param.use_global_stats() : context_.phase == caffe::TEST;
  eps_ = param.eps();
  fraction_ = param.moving_average_fraction();
  if (!(eps_ >= 0)) throw FieldError("batch_norm_param.eps", eps_, " given, expected at least 0");
  if (!(fraction_ >= 0 && fraction_ <= 1)) {
    throw FieldError("batch_norm_param.moving_average_fraction", fraction_,
                     " given, expected 0 to 1");
  }
  const int64_t channels = bottom[0]->num_axes() == 1 ? 1 : bottom[0]->dim(1);
  for (const Shape& shape : {Shape{channels}, Shape{channels}, Shape{1}}) AddParam(shape, {});
  for (int i = 0; i < 3; ++i) {
    if (i == param_.param_size()) param_.add_param()->set_lr_mult(0);
    if (const float given = param_.param(i).lr_mult(); given != 0) {
      throw FieldError(StrCat("param[", i, "].lr_mult"), given,
                       " given, expected 0: the statistics have no gradient");
    }
  }
}

void BatchNormLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Blob& x = *bottom[0];
  const int64_t channels = params_[kMean].blob->count();
  if (x.num_axes() > 1 ? x.dim(1) != channels : channels != 1) {
    throw FieldError("bottom", ShapeText(x.shape()), " given, expected ", channels, " channels");
  }
  view_ = x.num_axes() > 1 ? ChannelsOf(x) : ChannelView::Plain(1, 1, x.count());
  top[0]->ReshapeLike(x);
  kept_.Reshape(x, *top[0]);
  ChannelSumsMemory(context_);
  for (Blob* each : {&mean_, &inverse_, &diff_mean_, &product_mean_, &mean_sum_, &variance_sum_}) {
    if (each->shape() != Shape{channels}) each->Reshape({channels});
  }
  if (param_.batch_norm_param().synchronized() && exchanged_.bytes() == 0) {
    exchanged_ = Buffer(context_.queue->device().staging(), (2 * channels + 1) * sizeof(float));
  }
}

void BatchNormLayer::ComputeStatistics(const float* bottom) {
  Queue& queue = *context_.queue;
  if (global_) {
    return Launch(
        queue, view_.channels(),
        StatisticsOfSums{eps_, params_[kMean].blob->data(), params_[kVariance].blob->data(),
                         params_[kWeight].blob->data(), mean_.data(), inverse_.data()});
  }
  Others() != nullptr ? ComputeSynchronized(bottom) : ComputeOwn(bottom);
}

bool BatchNormLayer::Averages() const {
  if (global_ || context_.phase != caffe::TRAIN) return false;
  Collective* const others = Others();
  return others == nullptr || others->leads_process();
}

void BatchNormLayer::PreparePass() {
  if (!Averages()) return;
  weight_sum_ = fraction_ * weight_sum_ + 1;
  decay_ *= fraction_;
  ++batches_;
}

void BatchNormLayer::ComputeOwn(const float* bottom) {
  const bool averages = Averages();
  LaunchStatistics(context_, view_,
                   VarianceOfChannels{view_.per_channel(), eps_, sum_decay(), bottom, mean_.data(),
                                      inverse_.data(), averages ? mean_sum_.data() : nullptr,
                                      averages ? variance_sum_.data() : nullptr});
}

// The squares are those of differences from the mean of all members, so that no digits cancel.
void BatchNormLayer::ComputeSynchronized(const float* bottom) {
  Queue& queue = *context_.queue;
  const bool averages = Averages();
  const int64_t count = view_.per_channel();
  LaunchSums(context_, view_, MeanOfChannels{count, bottom, mean_.data(), nullptr});
  AverageOverMembers({&mean_});
  LaunchSums(context_, view_, MeanSquareOfChannels{count, bottom, mean_.data(), diff_mean_.data()});
  AverageOverMembers({&diff_mean_});
  const double all = static_cast<double>(count) * Others()->size();
  Launch(queue, view_.channels(),
         TakeVariance{eps_, static_cast<float>(all > 1 ? all / (all - 1) : 1), sum_decay(),
                      mean_.data(), diff_mean_.data(), inverse_.data(),
                      averages ? mean_sum_.data() : nullptr,
                      averages ? variance_sum_.data() : nullptr});
}

Collective* BatchNormLayer::Others() const {
  if (global_ || !param_.batch_norm_param().synchronized()) return nullptr;
  return collective() != nullptr && collective()->size() > 1 ? collective() : nullptr;
}

void BatchNormLayer::AverageOverMembers(std::initializer_list<const Blob*> blobs) {
  Queue& queue = *context_.queue;
  Collective& others = *Others();
  const size_t channels = view_.channels();
  const auto count = static_cast<float>(view_.per_channel());
  const std::span exchanged(exchanged_.get<float>(), channels * blobs.size() + 1);
  float* next = exchanged.data();
  for (const Blob* blob : blobs) {
    queue.CopyToHost(next, blob->data(), channels * sizeof(float));
    next += channels;
  }
  queue.Synchronize();
  exchanged.back() = count;
  others.Sum(exchanged);
  const float share = 1 / static_cast<float>(others.size());
  for (float& each : exchanged) each *= share;
  if (!(std::abs(exchanged.back() - count) <= 1e-5f * count)) {
    throw Error("layer '", name(), "': batch_norm_param.synchronized: this solver has ", count,
                " values per channel, and the mean of all is ", exchanged.back(),
                ", expected equal batches");
  }
  next = exchanged.data();
  for (const Blob* blob : blobs) {
    queue.CopyToDevice(blob->data(), next, channels * sizeof(float));
    next += channels;
  }
}

void BatchNormLayer::Forward(const Blobs& bottom, const Blobs& top) {
  PrepareInForward();
  const float* const x = bottom[0]->data();
  ComputeStatistics(x);
  if (scale_ != nullptr) return ForwardOfAll(*bottom[0], *top[0]);
  const auto normalize = [&](auto keep) {
    LaunchMap(*context_.queue, view_,
              NormalizeForward<decltype(keep)::value>{
                  x, mean_.data(), inverse_.data(), decltype(keep)::value ? kept_.copy() : nullptr,
                  top[0]->data()});
  };
  if (bottom[0] == top[0] && !global_) {
    normalize(std::true_type());
  } else {
    normalize(std::false_type());
  }
}

void BatchNormLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                              const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Queue& queue = *context_.queue;
  const float* const top_diff = top[0]->diff();
  if (scale_ != nullptr) return BackwardOfAll(top_diff, bottom[0]->diff());
  if (global_) {
    return LaunchMap(queue, view_,
                     GlobalNormalizeBackward{inverse_.data(), top_diff, bottom[0]->diff()});
  }
  const float* const x = kept_.Values(*bottom[0]);
  LaunchSums(context_, view_,
             NormalizeSums{view_.per_channel(), x, mean_.data(), inverse_.data(), top_diff,
                           diff_mean_.data(), product_mean_.data()});
  if (Others() != nullptr) AverageOverMembers({&diff_mean_, &product_mean_});
  LaunchMap(queue, view_,
            NormalizeBackward{x, mean_.data(), inverse_.data(), top_diff, diff_mean_.data(),
                              product_mean_.data(), bottom[0]->diff()});
}

// ---- With the layers taken in ----

bool BatchNormLayer::TryFuse(Layer* next) {
  if (auto* const scale = dynamic_cast<ScaleLayer*>(next); scale && !scale_) {
    if (!scale->HasNumberPerChannelOf(view_)) return false;
    scale_ = scale;
    scale_->set_fused_into(this);
    no_bias_.Reshape({view_.channels()});
    return true;
  }
  if (auto* const relu = dynamic_cast<ReluLayer*>(next); relu && scale_ && !relu_) {
    if (relu->slope() != 0) return false;
    relu_ = relu;
    relu_->set_fused(true);
    return true;
  }
  return false;
}

void BatchNormLayer::UnfuseAll() {
  if (scale_) scale_->set_fused_into(nullptr);
  if (relu_) relu_->set_fused(false);
  scale_ = nullptr;
  relu_ = nullptr;
}

template <bool kRelu>
NormalizeScale<kRelu> BatchNormLayer::Channels() const {
  const float* const bias = scale_->bias();
  return {mean_.data(), inverse_.data(), scale_->scale(), bias ? bias : no_bias_.data()};
}

void BatchNormLayer::ForwardOfAll(const Blob& bottom, const Blob& top) {
  const auto run = [&](auto relu, auto keep) {
    constexpr bool kRelu = decltype(relu)::value, kKeep = decltype(keep)::value;
    LaunchMap(*context_.queue, view_,
              NormalizeScaleForward<kRelu, kKeep>{Channels<kRelu>(), bottom.data(),
                                                  kKeep ? kept_.copy() : nullptr, top.data()});
  };
  const bool keeps = &bottom == &top && (!global_ || relu_ || scale_->WantsScale());
  bottom_ = keeps ? kept_.copy() : bottom.data();
  const auto with_relu = [&](auto relu) {
    keeps ? run(relu, std::true_type()) : run(relu, std::false_type());
  };
  relu_ ? with_relu(std::true_type()) : with_relu(std::false_type());
}

void BatchNormLayer::ScaleGradientsOf(const float* top_diff, ChannelGradient scale,
                                      ChannelGradient bias) {
  if (global_ && !scale.diff && !bias.diff) return;
  const auto run = [&](auto relu) {
    constexpr bool kRelu = decltype(relu)::value;
    LaunchSums(context_, view_,
               NormalizeScaleSums<kRelu>{Channels<kRelu>(), view_.per_channel(), bottom_, top_diff,
                                         scale, bias, diff_mean_.data(), product_mean_.data()});
  };
  relu_ ? run(std::true_type()) : run(std::false_type());
}

void BatchNormLayer::BackwardOfAll(const float* top_diff, float* bottom_diff) {
  if (Others() != nullptr) AverageOverMembers({&diff_mean_, &product_mean_});
  const auto run = [&](auto relu, auto global) {
    constexpr bool kRelu = decltype(relu)::value, kGlobal = decltype(global)::value;
    LaunchMap(*context_.queue, view_,
              NormalizeScaleBackward<kRelu, kGlobal>{Channels<kRelu>(), bottom_, top_diff,
                                                     diff_mean_.data(), product_mean_.data(),
                                                     bottom_diff});
  };
  const auto with_relu = [&](auto relu) {
    global_ ? run(relu, std::true_type()) : run(relu, std::false_type());
  };
  relu_ ? with_relu(std::true_type()) : with_relu(std::false_type());
}

// ---- Statistics ----

void BatchNormLayer::EndIteration() {
  if (batches_ == 0) return;
  const int64_t channels = view_.channels();
  AverageStatistics(*context_.queue, update_lock(), decay_,
                    {{channels, mean_sum_.data(), 0, params_[kMean].blob->data()},
                     {channels, variance_sum_.data(), 0, params_[kVariance].blob->data()},
                     {1, nullptr, weight_sum_, params_[kWeight].blob->data()}});
  weight_sum_ = 0;
  decay_ = 1;
  batches_ = 0;
}

namespace {

const RegisterLayer<BatchNormLayer> batch_norm_layer("BatchNorm");

}  // namespace
}  // namespace millrace::inline nn
