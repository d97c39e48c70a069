// What the loop computes without oneDNN: memory-bound steps for which oneDNN has
// no primitive or, without AVX-512, a slow one. GCC builds each for several
// instruction sets and picks one when the program is loaded. Thread-safe.
#ifndef MILLRACE_BENCH_ONEDNN_LOOP_KERNELS_H_
#define MILLRACE_BENCH_ONEDNN_LOOP_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace onednn_loop {

// history = momentum * history + rate * (gradient + decay * weight);
// weight -= history. Other threads may write the weights at the same time.
void SgdUpdate(float* weights, const float* gradients, float* history, size_t count, float rate,
               float momentum, float decay);

// Zeroes d[i] where y[i] is not positive: a ReLU's backward pass from its output.
void ReluMask(float* d, const float* y, size_t count);

// Zeroes half of y and doubles the rest; `mask` gets the factors. `state` holds 16
// non-zero random numbers; `count` is a multiple of 16.
void Dropout(float* y, float* mask, size_t count, uint32_t* state);
// d *= mask
void Multiply(float* d, const float* mask, size_t count);

// Max pooling over `images` images of `height` x `height` pixels with `channels`
// channels innermost, at least 8: nhwc, or blocked memory seen as one image per
// block. Windows that overhang on the right and below are clipped.
struct PoolShape {
  int images, channels, height, pooled_height, kernel, stride;
  bool relu;  // x is a ReLU's output: where it is 0, no gradient passes
};
// `which` gets each window's maximum as row * kernel + column; -1 where no
// gradient passes.
void MaxPoolForward(const PoolShape& shape, const float* x, float* y, int* which);
// Writes every value of dx.
void MaxPoolBackward(const PoolShape& shape, const float* dy, const int* which, float* dx);

// Softmax and cross-entropy of `batch` rows of `classes`: d = (p - onehot) / batch.
// Returns the mean loss.
float SoftmaxLoss(const float* x, const int* labels, float* d, int batch, int classes);

}  // namespace onednn_loop

#endif  // MILLRACE_BENCH_ONEDNN_LOOP_KERNELS_H_
