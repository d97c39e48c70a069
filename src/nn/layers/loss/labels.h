// Class labels as layers read them: floats that hold small integers, one for each (outer, inner)
// position of the scores (see AxisView).
#ifndef MILLRACE_NN_LAYERS_LOSS_LABELS_H_
#define MILLRACE_NN_LAYERS_LOSS_LABELS_H_

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "millrace/blob.h"
#include "nn/layers/activation/softmax_layer.h"

namespace millrace::inline nn {

class Labels {
 public:
  static constexpr int64_t kIgnored = -1;

  // `layer` is the layer's name in error messages.
  Labels(std::string layer, std::optional<int> ignored)
      : layer_(std::move(layer)), ignored_(ignored) {}

  const std::optional<int>& ignored() const { return ignored_; }
  // Throws Error unless `labels` holds one value for each position of `view`.
  void CheckShape(const Blob& labels, const AxisView& view) const;

  // Returns the class at (outer, inner) of `labels`, a plain array in host memory, or kIgnored.
  // Throws Error naming the layer, the label, its position and the number of classes if the label
  // is not a class.
  int64_t Class(const float* labels, const AxisView& view, int64_t outer, int64_t inner) const {
    const float value = labels[outer * view.inner + inner];
    // As in Caffe, labels are truncated to whole numbers.
    if (ignored_ && std::trunc(value) == static_cast<float>(*ignored_)) return kIgnored;
    if (!(value >= 0 && value < static_cast<float>(view.classes))) {
      ThrowNotAClass(value, view, outer, inner);
    }
    return static_cast<int64_t>(value);
  }

  // Throws Error as Class does, for the first label of `labels` that is not a class.
  void CheckAll(const float* labels, const AxisView& view) const {
    for (int64_t i = 0; i < view.outer * view.inner; ++i) {
      Class(labels, view, i / view.inner, i % view.inner);
    }
  }

 private:
  [[noreturn]] void ThrowNotAClass(float value, const AxisView& view, int64_t outer,
                                   int64_t inner) const;

  std::string layer_;
  std::optional<int> ignored_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LOSS_LABELS_H_
