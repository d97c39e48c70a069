// The base of losses, and the sum of their terms on a device.
#ifndef MILLRACE_NN_LAYERS_LOSS_LOSS_LAYER_H_
#define MILLRACE_NN_LAYERS_LOSS_LOSS_LAYER_H_

#include <algorithm>
#include <vector>

#include "device/kernel.h"
#include "millrace/blob.h"
#include "millrace/layer.h"
#include "nn/layers/loss/labels.h"
#include "nn/layers/loss/loss_kernels.h"

namespace millrace::inline nn {

// The sum of a loss over its elements, on any device, and what the backward pass needs to know of
// it.

// The memory belongs to this object. Used by the thread that uses the queue.
class LossSum {
 public:
  // Call before the passes, with the number of elements. `queue` outlives the object's last use.
  void Reserve(int64_t count, Queue& queue) {
    // Elements that one team adds up, and the most teams: enough to fill a GPU.
    constexpr int64_t kPerPart = 4096, kMaxParts = 512;
    count_ = count;
    parts_ = std::clamp<int64_t>((count + kPerPart - 1) / kPerPart, 1, kMaxParts);
    if (sums_.bytes() > 0) return;
    Device& device = queue.device();
    sums_ = Buffer(device.memory(), kMaxParts * sizeof(LossPart));
    totals_ = Buffer(device.memory(), sizeof(PositionTotals));
    totals_on_host_ = Buffer(device.staging(), sizeof(PositionTotals));
    totals_on_host_.get<PositionTotals>()->invalid = 0;
  }

  // Enqueues the sums of the parts.
  template <typename Terms>
  void EnqueueParts(Queue& queue, const Terms& terms) {
    Launch(queue, parts_, LossParts<Terms>{count_, parts_, terms, sums()});
  }
  // Enqueues the loss: the sum of the terms divided by the normalizer.
  template <typename Terms>
  void Enqueue(Queue& queue, const Terms& terms, LossNormalizer normalizer, float* loss) {
    EnqueueParts(queue, terms);
    Launch(queue, 1, LossOfParts{parts_, normalizer, sums(), totals(), loss});
    if (!Terms::kLabels) return;
    queue.CopyToHost(totals_on_host_.get(), totals(), sizeof(PositionTotals));
  }

  int64_t parts() const { return parts_; }
  LossPart* sums() const { return sums_.get<LossPart>(); }
  // For kernels that run after Enqueue; `loss_diff` is dE/dloss.
  LossScale Scale(const float* loss_diff) const { return {loss_diff, totals()}; }

  // Throws Error as Labels::Class does if a label of the last Enqueue was not a class. Call when
  // that work has completed.
  void CheckLabels(const Labels& labels, const AxisView& view, const Blob& blob) const {
    if (!(totals_on_host_.get<PositionTotals>()->invalid > 0)) return;
    std::vector<float> copy;
    labels.CheckAll(blob.DataOnHost(&copy), view);
  }

 private:
  PositionTotals* totals() const { return totals_.get<PositionTotals>(); }

  int64_t count_ = 0, parts_ = 1;
  Buffer sums_, totals_, totals_on_host_;
};

// What loss layers have in common: two bottoms (predictions, labels), of which the second has no
// gradient; one top, the loss, a scalar that the net adds to its objective with weight 1 and makes
// if the net file names none.
class LossLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  float DefaultLossWeight(int top) const override { return top == 0 ? 1 : 0; }
  bool AllowBackward(int bottom) const override { return bottom != 1; }
  bool AutoTop() const override { return true; }

 protected:
  // Sets the shape of the loss and prepares to add up `elements` terms.
  void ReshapeLoss(const Blobs& top, int64_t elements) {
    top[0]->Reshape({});
    sum_.Reserve(elements, *context_.queue);
  }
  // The number of examples: the first axis of bottom[0]. Throws FieldError if bottom[0] has no axis
  // or if bottom[i] has another number of examples.
  static int64_t Examples(const Blobs& bottom, size_t i = 1);
  // Throws FieldError unless bottom[i] has as many examples and values as bottom[0].
  static void CheckSameCount(const Blobs& bottom, size_t i);
  // Throws FieldError unless bottom[1] holds one value per example.
  static void CheckOneLabelPerExample(const Blobs& bottom);

  LossSum sum_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LOSS_LOSS_LAYER_H_
