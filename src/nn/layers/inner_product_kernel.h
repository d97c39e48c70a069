// Products of small batches with the weights of an inner product, for processors
// with AVX2 but not AVX-512.
//
// With few rows what counts is to pass over the weights once, in the order that
// they lie in. oneDNN 2.6's matrix product copies them into another order first,
// into memory that it allocates anew in each call. The gradient of the weights is
// what is then written once, each line of it asked for long before.
#ifndef MILLRACE_NN_LAYERS_INNER_PRODUCT_KERNEL_H_
#define MILLRACE_NN_LAYERS_INNER_PRODUCT_KERNEL_H_

#include <cstddef>
#include <cstdint>

namespace millrace {

// Row-major: bottom {rows, inputs}, top {rows, outputs}, weights {outputs, inputs}.
struct InnerProductShape {
  int64_t rows, inputs, outputs;
};

// Whether the functions below can do it: this processor has AVX2, and `inputs` is
// a multiple of 16.
bool InnerProductKernelFits(const InnerProductShape& shape);
// Whether they also take less time here than oneDNN's primitives.
bool InnerProductKernelPays(const InnerProductShape& shape);

// What each function needs as `scratch`.
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

}  // namespace millrace

#endif  // MILLRACE_NN_LAYERS_INNER_PRODUCT_KERNEL_H_
