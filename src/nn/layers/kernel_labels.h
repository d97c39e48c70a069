// Converts the description of labels to the form that kernels take.
#ifndef MILLRACE_NN_LAYERS_KERNEL_LABELS_H_
#define MILLRACE_NN_LAYERS_KERNEL_LABELS_H_

#include "nn/layers/labels.h"
#include "nn/layers/softmax_kernels.h"

namespace millrace::inline nn {

inline KernelLabels LabelsForKernels(const Labels& labels, const AxisView& view) {
  const float ignored = static_cast<float>(labels.ignored().value_or(0));
  return {view.classes, labels.ignored().has_value(), ignored};
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_KERNEL_LABELS_H_
