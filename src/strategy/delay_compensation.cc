#include "strategy/delay_compensation.h"

#include <algorithm>

namespace millrace::inline strategy {

void HogwildUpdateCompensate(float lambda, int passes, int64_t count, const float* gradients,
                             const float* weights, float* read) {
  const float strength = lambda / static_cast<float>(passes);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradients[i];
    read[i] = g + strength * g * g * (weights[i] - read[i]);
  }
}

}  // namespace millrace::inline strategy
