// Convolutions on the host that oneDNN does not have: with more spatial axes, or with a window that
// exceeds the bottom.
#ifndef MILLRACE_NN_LAYERS_CONVOLUTION_CONVOLUTION_PLAN_CPU_H_
#define MILLRACE_NN_LAYERS_CONVOLUTION_CONVOLUTION_PLAN_CPU_H_

#include <memory>

#include "nn/layers/convolution/column_convolution.h"
#include "nn/layers/convolution/planned_convolution.h"
#include "nn/onednn/matrix_product.h"

namespace millrace::inline nn {

// `bottom`: the shape of the bottom of the geometry's convolution.
inline std::unique_ptr<PlannedConvolution> MakeColumnConvolutionCpu(
    const ConvolutionGeometry& geometry, bool reversed, const LayerContext& context,
    const Shape& bottom) {
  return std::make_unique<PlannedConvolution>(
      geometry, reversed, context,
      PlanColumnConvolution(geometry, geometry.Folded(bottom), *context.queue, onednn::Multiply));
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CONVOLUTION_CONVOLUTION_PLAN_CPU_H_
