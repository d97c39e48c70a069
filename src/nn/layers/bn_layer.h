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
#ifndef MILLRACE_NN_LAYERS_BN_LAYER_H_
#define MILLRACE_NN_LAYERS_BN_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/channel_view.h"
#include "nn/layers/kept_bottom.h"
#include "nn/layers/normalize_scale_kernels.h"
#include "nn/layers/pass_preparation.h"

namespace millrace::inline nn {

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

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_BN_LAYER_H_
