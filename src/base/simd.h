// Loops compiled for several instruction sets and chosen at run time.
//
// A loop is written once over vectors of a set (Sse, Avx2, Avx512), as an
// always_inline template, and instantiated in one function per set that carries
// the matching target attribute (MILLRACE_KERNEL); VisitSimd calls one of them. Done by
// hand and not by target_clones, whose resolvers run before a sanitizer is ready.
#ifndef MILLRACE_BASE_SIMD_H_
#define MILLRACE_BASE_SIMD_H_

#include <cstdint>

namespace millrace {

// The instruction sets that loops are compiled for.
enum class Simd { kBaseline, kAvx2, kAvx512 };

bool SimdSupported(Simd simd);
// The widest one that this processor has.
Simd BestSimd();

// A register's worth of floats, or of 32-bit integers, at any address that one
// of them may have.
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

// Before a function that is compiled for `Set` and called from one that is not.
#define MILLRACE_KERNEL(Set) __attribute__((noinline, target(MILLRACE_TARGET_##Set)))
// Before functions that are only written for AVX2, and before their parts.
#define MILLRACE_AVX2 __attribute__((target(MILLRACE_TARGET_Avx2)))
#define MILLRACE_INLINE_AVX2 inline __attribute__((always_inline, target(MILLRACE_TARGET_Avx2)))
// The same for AVX-512.
#define MILLRACE_AVX512 __attribute__((target(MILLRACE_TARGET_Avx512)))
#define MILLRACE_INLINE_AVX512 inline __attribute__((always_inline, target(MILLRACE_TARGET_Avx512)))

// Calls `visit` with the set of `simd`, a value that says nothing but its type, and
// returns what it returns.
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
