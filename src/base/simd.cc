#include "base/simd.h"

#include <hwy/targets.h>

namespace millrace::inline base {

bool SimdSupported(Simd simd) {
  if (simd == Simd::kBaseline) return true;
  const int64_t set = simd == Simd::kAvx2 ? HWY_AVX2 : HWY_AVX3;
  return (hwy::SupportedTargets() & set) != 0;
}

Simd BestSimd() {
  static const Simd best = SimdSupported(Simd::kAvx512) ? Simd::kAvx512
                           : SimdSupported(Simd::kAvx2) ? Simd::kAvx2
                                                        : Simd::kBaseline;
  return best;
}

}  // namespace millrace::inline base
