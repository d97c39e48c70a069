// Matrix products on the host by oneDNN.
#ifndef MILLRACE_NN_ONEDNN_SGEMM_H_
#define MILLRACE_NN_ONEDNN_SGEMM_H_

#include <cstdint>

namespace millrace::inline nn::onednn {

// c = a b, or c = c + a b if `add`, for row-major matrices: a {m, k}, or {k, m} if transpose_a;
// b {k, n}, or {n, k} if transpose_b; c {m, n}.
void Sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
           const float* b, bool add, float* c);

}  // namespace millrace::inline nn::onednn

#endif  // MILLRACE_NN_ONEDNN_SGEMM_H_
