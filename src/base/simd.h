// Vector loops compiled for several instruction sets and selected at run time.
//
// A loop is an always_inline template over the vector types of a set (Sse, Avx2, Avx512). One
// function per set instantiates it and carries the matching target attribute (MILLRACE_KERNEL);
// VisitSimd calls one of these functions. target_clones is not used: its resolvers run before a
// sanitizer is initialised.
#ifndef MILLRACE_BASE_SIMD_H_
#define MILLRACE_BASE_SIMD_H_

#include <cstdint>

namespace millrace {

// Instruction sets for which loops are compiled.
enum class Simd { kBaseline, kAvx2, kAvx512 };

bool SimdSupported(Simd simd);
// The widest set that this processor supports.
Simd BestSimd();

// Vector types of one register: floats or 32-bit integers. Loads and stores need only 4-byte
// alignment.
template <int kBytes>
struct SimdVectors {
  typedef float Float __attribute__((vector_size(kBytes), aligned(4), may_alias));
  typedef int32_t Int __attribute__((vector_size(kBytes), aligned(4), may_alias));
  static constexpr int64_t kLanes = kBytes / 4;
};
using Sse = SimdVectors<16>;
using Avx2 = SimdVectors<32>;
using Avx512 = SimdVectors<64>;

#define MILLRACE_TARGET_Sse "sse2"
#define MILLRACE_TARGET_Avx2 "avx2,fma,popcnt"
#define MILLRACE_TARGET_Avx512 "avx512f,fma,popcnt"

// For a function compiled for `Set` and called from code that is not.
#define MILLRACE_KERNEL(Set) __attribute__((noinline, target(MILLRACE_TARGET_##Set)))
// For functions that exist only for AVX2; MILLRACE_INLINE_AVX2 is for their helpers.
#define MILLRACE_AVX2 __attribute__((target(MILLRACE_TARGET_Avx2)))
#define MILLRACE_INLINE_AVX2 inline __attribute__((always_inline, target(MILLRACE_TARGET_Avx2)))
// The same for AVX-512.
#define MILLRACE_AVX512 __attribute__((target(MILLRACE_TARGET_Avx512)))
#define MILLRACE_INLINE_AVX512 inline __attribute__((always_inline, target(MILLRACE_TARGET_Avx512)))

// Calls `visit` with a tag value of the vector set that matches `simd` and returns its result.
template <typename Visit>
auto VisitSimd(Simd simd, Visit visit) {
  switch (simd) {
    case Simd::kAvx512:
      return visit(Avx512{});
    case Simd::kAvx2:
      return visit(Avx2{});
    case Simd::kBaseline:
      break;
  }
  return visit(Sse{});
}

}  // namespace millrace

#endif  // MILLRACE_BASE_SIMD_H_
