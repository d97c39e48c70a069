// Loops compiled for several instruction sets and chosen at run time.
//
// A loop is written once over vectors of a set (Sse, Avx2, Avx512), as an
// always_inline template, and instantiated in one function per set that carries
// the matching target attribute; a switch over BestSimd() calls it. Done by hand
// and not by target_clones, whose resolvers run before a sanitizer is ready.
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
#define MILLRACE_TARGET_Avx512 "avx512f"

}  // namespace millrace

#endif  // MILLRACE_BASE_SIMD_H_
