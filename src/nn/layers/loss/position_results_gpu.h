// What kernels that read labels need, and the results of kernels by position.
#ifndef MILLRACE_NN_LAYERS_LOSS_POSITION_RESULTS_GPU_H_
#define MILLRACE_NN_LAYERS_LOSS_POSITION_RESULTS_GPU_H_

#include <vector>

#include "device/kernel.h"
#include "millrace/blob.h"
#include "nn/layers/activation/softmax_kernels.h"
#include "nn/layers/loss/labels.h"

namespace millrace::inline nn {

// Converts the description of labels to the form that kernels take.
inline KernelLabels LabelsForKernels(const Labels& labels, const AxisView& view) {
  const float ignored = static_cast<float>(labels.ignored().value_or(0));
  return {view.classes, labels.ignored().has_value(), ignored};
}

// Results of the positions of a softmax loss or an accuracy on a GPU, and the check of the labels
// that only the GPU has read.

// The memory belongs to this object. Used by the thread that uses the queue.
class PositionResultsGpu {
 public:
  // Call before the passes. `queue` outlives the object's last use.
  void Reserve(const AxisView& view, Queue& queue) {
    positions_ = view.outer * view.inner;
    Device& device = queue.device();
    if (results_.bytes() < positions_ * sizeof(PositionResult)) {
      queue.Synchronize();  // work may use the old memory
      results_ = Buffer(device.memory(), positions_ * sizeof(PositionResult));
    }
    if (totals_.bytes() > 0) return;
    totals_ = Buffer(device.memory(), sizeof(PositionTotals));
    totals_on_host_ = Buffer(device.staging(), sizeof(PositionTotals));
    totals_on_host_.get<PositionTotals>()->invalid = 0;
  }

  int64_t positions() const { return positions_; }
  PositionResult* results() const { return results_.get<PositionResult>(); }
  PositionTotals* totals() const { return totals_.get<PositionTotals>(); }

  // Enqueues the mean of all results.
  void Mean(Queue& queue, bool by_counted, float normalizer, float* mean) {
    Launch(queue, 1,
           MeanOfPositions{positions_, by_counted, normalizer, results(), totals(), mean});
    queue.CopyToHost(totals_on_host_.get(), totals(), sizeof(PositionTotals));
  }

  // Throws Error as Labels::Class does if a label was not a class. Call when the work of Mean has
  // completed.
  void Check(const Labels& labels, const AxisView& view, const Blob& blob) const {
    if (!(totals_on_host_.get<PositionTotals>()->invalid > 0)) return;
    std::vector<float> copy;
    labels.CheckAll(blob.DataOnHost(&copy), view);
  }

 private:
  int64_t positions_ = 0;
  Buffer results_, totals_, totals_on_host_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LOSS_POSITION_RESULTS_GPU_H_
