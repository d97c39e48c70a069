// Chooses the algorithms of convolutions and deconvolutions on GPUs.
#ifndef MILLRACE_NN_LAYERS_CONVOLUTION_PLAN_GPU_H_
#define MILLRACE_NN_LAYERS_CONVOLUTION_PLAN_GPU_H_

#include <memory>

#include "millrace/queue.h"
#include "nn/layers/convolution_geometry.h"
#include "nn/layers/convolution_plan.h"

namespace millrace::inline nn {

// A plan for the geometry's convolution from a blob of shape `bottom` to one of shape `top`: the
// vendor's library computes up to two spatial axes, matrix products compute more. `kept`: of the
// layer. Throws Error.
std::unique_ptr<ConvolutionPlan> PlanGpuConvolution(const ConvolutionGeometry& geometry,
                                                    const Shape& bottom, const Shape& top,
                                                    Queue& queue, KeptInput kept);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CONVOLUTION_PLAN_GPU_H_
