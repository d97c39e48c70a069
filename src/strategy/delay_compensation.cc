#include "strategy/delay_compensation.h"

namespace millrace::inline strategy {

void HogwildUpdateCompensate(float lambda, int passes, int64_t count, const float* gradients,
                             const float* weights, float* read) {
  const Compensate kernel{lambda / static_cast<float>(passes), gradients, weights, read};
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) kernel(i);
}

}  // namespace millrace::inline strategy
