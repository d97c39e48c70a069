#include "nn/layers/convolution_plan_gpu.h"

#include "nn/gpu/gpu_library.h"
#include "nn/layers/column_convolution.h"

namespace millrace::inline nn {

std::unique_ptr<ConvolutionPlan> PlanGpuConvolution(const ConvolutionGeometry& g,
                                                    const Shape& bottom, const Shape& top,
                                                    Queue& queue, KeptInput kept) {
  GpuLibrary& library = GpuLibraryOf(queue);
  const Shape from = g.Folded(bottom), to = g.Folded(top);
  if (g.axes() > 2 || g.WindowExceeds(bottom)) {
    return PlanColumnConvolution(
        g, from, queue,
        [&library](bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                   const float* a, const float* b, bool add, float* c) {
          library.Multiply(transpose_a, transpose_b, m, n, k, a, b, add, c);
        });
  }
  ConvolutionProblem problem{from[0], from[1], from[2], from[3], to[1], to[2],
                             to[3],   g.group, {},      {},      {},    {}};
  for (int axis : {0, 1}) {
    problem.kernel[axis] = g.kernel[axis];
    problem.stride[axis] = g.stride[axis];
    problem.pad[axis] = g.pad[axis];
    problem.dilation[axis] = g.dilation[axis];
  }
  return library.PlanConvolution(problem, kept);
}

}  // namespace millrace::inline nn
