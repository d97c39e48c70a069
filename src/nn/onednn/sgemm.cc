#include "nn/onednn/sgemm.h"

#include <glog/logging.h>

#include <dnnl.hpp>

namespace millrace::inline nn::onednn {

void Sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
           const float* b, bool add, float* c) {
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1, a,
                 transpose_a ? m : k, b, transpose_b ? k : n, add ? 1.0f : 0.0f, c, n);
  CHECK_EQ(status, dnnl_success) << m << " x " << n << " x " << k;
}

}  // namespace millrace::inline nn::onednn
