// Matrix products for layers whose code is the same on all devices.
#ifndef MILLRACE_NN_MATRIX_PRODUCT_H_
#define MILLRACE_NN_MATRIX_PRODUCT_H_

#include <cstdint>

#include "millrace/queue.h"

namespace millrace::inline nn {

// Makes what Multiply needs on this queue, so that the passes allocate nothing. Throws Error if the
// device has failed or has too little memory.
void PrepareMultiply(Queue& queue);

// Enqueues c = a b, or c = c + a b if `add`, for row-major matrices in the memory of the queue's
// device: a {m, k}, or {k, m} if transpose_a; b {k, n}, or {n, k} if transpose_b; c {m, n}. On the
// host the product is complete when Multiply returns. Throws Error if the device has failed.
void Multiply(Queue& queue, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
              const float* a, const float* b, bool add, float* c);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_MATRIX_PRODUCT_H_
