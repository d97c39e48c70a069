// Inner products of small batches, for processors with AVX2 but not AVX-512.
//
// With few rows, reading the weights takes most of the time. These functions read the weights once,
// in memory order. oneDNN 2.6's matrix product first copies them into another order, into memory
// that it allocates in each call. The gradient of the weights is written once, and each of its
// cache lines is prefetched well before.
#ifndef MILLRACE_NN_LAYERS_INNER_PRODUCT_INNER_PRODUCT_KERNEL_H_
#define MILLRACE_NN_LAYERS_INNER_PRODUCT_INNER_PRODUCT_KERNEL_H_

#include <cstddef>
#include <cstdint>

namespace millrace::inline nn {

// Row-major: bottom {rows, inputs}, top {rows, outputs}, weights {outputs, inputs}.
struct InnerProductShape {
  int64_t rows, inputs, outputs;
};

// Whether the functions below support the shape: this processor has AVX2, and `inputs` is a
// multiple of 16.
bool InnerProductKernelFits(const InnerProductShape& shape);
// Whether they are also faster on this processor than oneDNN's primitives.
bool IsInnerProductKernelWorthwhile(const InnerProductShape& shape);

// The bytes of `scratch` that each function needs.
size_t InnerProductScratchBytes(const InnerProductShape& shape);

// `bias` {outputs} may be null.
void InnerProductForward(const InnerProductShape& shape, const float* bottom, const float* weights,
                         const float* bias, float* top, float* scratch);

// Writes all of bottom_diff.
void InnerProductBackwardData(const InnerProductShape& shape, const float* top_diff,
                              const float* weights, float* bottom_diff, float* scratch);

// Writes all of weight_diff and, unless it is null, of bias_diff {outputs}.
void InnerProductBackwardWeights(const InnerProductShape& shape, const float* bottom,
                                 const float* top_diff, float* weight_diff, float* bias_diff,
                                 float* scratch);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_INNER_PRODUCT_INNER_PRODUCT_KERNEL_H_
