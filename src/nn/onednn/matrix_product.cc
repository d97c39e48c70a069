#include "nn/onednn/matrix_product.h"

#include <dnnl.hpp>

#include "base/error.h"

namespace millrace::inline nn::onednn {

void Multiply(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
              const float* b, bool add, float* c) {
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1, a,
                 transpose_a ? m : k, b, transpose_b ? k : n, add ? 1 : 0, c, n);
  if (status != dnnl_success) {
    throw Error("a matrix product of size ", m, " x ", n, " x ", k, " failed");
  }
}

}  // namespace millrace::inline nn::onednn
