#include "base/simd.h"

namespace millrace {

bool SimdSupported(Simd simd) {
  switch (simd) {
    case Simd::kBaseline:
      return true;
    case Simd::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("popcnt");
    case Simd::kAvx512:
      return __builtin_cpu_supports("avx512f");
  }
  return false;
}

Simd BestSimd() {
  static const Simd best = SimdSupported(Simd::kAvx512) ? Simd::kAvx512
                           : SimdSupported(Simd::kAvx2) ? Simd::kAvx2
                                                        : Simd::kBaseline;
  return best;
}

}  // namespace millrace
