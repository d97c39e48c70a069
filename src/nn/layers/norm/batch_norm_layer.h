// Batch normalisation (S. Ioffe, C. Szegedy: "Batch Normalization", ICML 2015) of each channel,
// over all images and positions. The channels are axis 1; a blob of one axis is a single channel.
// Scale and bias are a Scale layer of their own. Accepts any memory order and may work in place.
//
// With the statistics of the batch (in training, or with use_global_stats: false):
//   mean = sum(bottom) / m      variance = sum((bottom - mean)^2) / m      m values per channel
//   top = (bottom - mean) / sqrt(variance + eps)
// With global statistics (in tests, or with use_global_stats: true) mean and variance come from the
// layer's three arrays, which have no gradient: lr_mult must be 0, and is if it is not given.
//   blob 0 [channels]  M = sum of w * batch mean
//   blob 1 [channels]  V = sum of w * batch variance * m / (m - 1)
//   blob 2 [1]         S = sum of w                       mean = M / S, variance = V / S
// Each batch of a training net with batch statistics takes all three to
//   blob = moving_average_fraction * blob + (batch mean, batch variance * m / (m - 1), 1)
// so that a batch of k batches ago has w = moving_average_fraction^k. These are the formulas and
// the blobs of Caffe. Different from Caffe, a net in the test phase never changes them.
//
// Synchronised (`synchronized: true`, not in Caffe). Nets that step together (Net::SynchronizeWith)
// take their batches, of equal size, as one: mean(...) below is a sum over all of them.
//   mean = mean(bottom)      variance = mean((bottom - mean)^2)
//   d bottom = (d top - mean(d top) - n * mean(d top * n)) / sqrt(variance + eps)
// with n = (bottom - mean) / sqrt(variance + eps). A pass makes three sums over the members: two
// forward and one backward. Of the nets in one process, the first writes the three arrays. Without
// other nets that step together, and with global statistics, it changes nothing.
//
// Several writers. The three arrays are a part of the shared weights. Forward does not write them:
// it sums up what its batches add, and EndIteration writes the sums, in one step for each element.
// - Batches of an iteration that failed (NonFiniteLoss) never reach the shared arrays.
// - An element's step is atomic, so of several solvers none loses what another adds. Each of the
//   three arrays therefore receives every batch, in any order: M / S and V / S are averages of
//   batch means and variances with positive weights.
// - On the host, EndIteration holds the net's update lock meanwhile, as update rules do. So no step
//   reverses what an exchange with other machines brings (docs/exchange.md). On a device, the
//   solver's strategy gives the work of EndIteration a place in the order of all changes of the
//   weights (device/write_order.h).
// - A step is linear in the array, with the same coefficients for M, V and S. Additive merging of
//   the steps of several machines thus keeps M / S and V / S averages, too. For N machines that
//   take k batches each between exchanges, S tends to 1 / (1 - fraction), like one machine's; the
//   condition for that, N (1 - fraction^k) < 2, is that of any weight with that curvature, and is
//   what damping of stale exchanges ensures. The arrays may lie in different chunks, and a
//   machine may then have a batch in M and not yet in S: for a moment, M / S is wrong by one part
//   in S.
#ifndef MILLRACE_NN_LAYERS_NORM_BATCH_NORM_LAYER_H_
#define MILLRACE_NN_LAYERS_NORM_BATCH_NORM_LAYER_H_

#include <initializer_list>
#include <vector>

#include "millrace/layer.h"
#include "nn/layers/channel_view.h"
#include "nn/layers/kept_bottom.h"
#include "nn/layers/layer_interfaces.h"
#include "nn/layers/norm/normalize_scale_kernels.h"

namespace millrace::inline nn {

class ReluLayer;
class ScaleLayer;

// Takes in a Scale layer with one number per channel, and then a ReLU: values and gradients are
// read and written once for all of them, and one copy of the bottom serves all.
class BatchNormLayer : public Layer, public FusesNext, public BackwardReads, public PreparesPass {
 public:
  BatchNormLayer(const caffe::LayerParameter& param, const LayerContext& context);

  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"batch_norm_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  // Counts the batch.
  void PreparePass() override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
  // Takes the batches since the last call into the three arrays.
  void EndIteration() override;

  bool TryFuse(Layer* next) override;
  void UnfuseAll() override;
  // The backward pass of the Scale layer that was taken in, but for the diff of its bottom: the
  // layer's own Backward goes from the diff of the last top to that of its bottom.
  void ScaleGradientsOf(const float* top_diff, ChannelGradient scale, ChannelGradient bias);
  ValuesRead BackwardValues(const Blobs& bottom, const Blobs& top) const override {
    return bottom[0] == top[0] ? ValuesRead::kNone : ValuesRead::kBottoms;
  }

 private:
  // Whether the statistics of batches go into the three arrays.
  bool Averages() const;
  void ComputeStatistics(const float* bottom);
  // The statistics of the batch.
  void ComputeOwn(const float* bottom);
  void ComputeSynchronized(const float* bottom);
  // What the sums for EndIteration are multiplied by before this batch is added.
  float sum_decay() const { return batches_ <= 1 ? 0 : fraction_; }
  // The members whose batches this one's is a part of; null: it is alone.
  Collective* Others() const;
  // Replaces numbers of each channel by their means over the members. Waits for the queue.
  void AverageOverMembers(std::initializer_list<const Blob*> blobs);
  void ForwardOfAll(const Blob& bottom, const Blob& top);
  void BackwardOfAll(const float* top_diff, float* bottom_diff);
  template <bool kRelu>
  NormalizeScale<kRelu> Channels() const;

  bool global_ = false;
  float eps_ = 0, fraction_ = 0;
  ChannelView view_;
  KeptBottom kept_;
  Blob mean_, inverse_;               // of each channel
  Blob diff_mean_, product_mean_;     // of each channel, in the backward pass
  Blob mean_sum_, variance_sum_;      // what the batches since EndIteration add to M and V
  float weight_sum_ = 0, decay_ = 1;  // what they add to S, and the factor of the old values
  int64_t batches_ = 0;               // since EndIteration, with the one of the present pass
  Buffer exchanged_;  // staging memory: the numbers that are summed over the members

  ScaleLayer* scale_ = nullptr;  // taken in
  ReluLayer* relu_ = nullptr;
  const float* bottom_ = nullptr;  // with scale_: the bottom of the last forward pass
  Blob no_bias_;                   // zeros, with scale_
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_NORM_BATCH_NORM_LAYER_H_
