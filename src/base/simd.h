// Vector loops compiled for several instruction sets and selected at run time.
//
// A loop is an always_inline template over the vector types of a set (Sse, Avx2, Avx512). One
// function per set instantiates it and carries the matching target attribute (MILLRACE_KERNEL);
// VisitSimd calls one of these functions. target_clones is not used: its resolvers run before a
// sanitizer is initialised. Loops that need more than arithmetic on vectors use Highway instead
// (exchange/kernels/host_loops.h).
#ifndef MILLRACE_BASE_SIMD_H_
#define MILLRACE_BASE_SIMD_H_

#include <cstdint>

namespace millrace::inline base {

// Instruction sets for which loops are compiled.
enum class Simd {
  kBaseline,  // what every processor of the build's family has: SSSE3, or NEON on arm64
  kAvx2,      // with FMA, as Highway's AVX2
  kAvx512,    // F, VL, DQ and BW, as Highway's AVX3
};

// Thread-safe. On a processor that is not an x86, true for kBaseline only.
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

// Other processors compile code for x86 sets too, with several of their own vectors for a wide one,
// and never execute it.
#ifdef __x86_64__
#define MILLRACE_TARGET_Sse target("sse2")
#define MILLRACE_TARGET_Avx2 target("avx2,fma,popcnt")
#define MILLRACE_TARGET_Avx512 target("avx512f,fma,popcnt")
#else
#define MILLRACE_TARGET_Sse
#define MILLRACE_TARGET_Avx2 unused
#define MILLRACE_TARGET_Avx512 unused
#endif

// For a function compiled for `Set` and called from code that is not.
#define MILLRACE_KERNEL(Set) __attribute__((noinline, MILLRACE_TARGET_##Set))
// For functions that exist only for AVX2; MILLRACE_INLINE_AVX2 is for their helpers.
#define MILLRACE_AVX2 __attribute__((MILLRACE_TARGET_Avx2))
#define MILLRACE_INLINE_AVX2 inline __attribute__((always_inline, MILLRACE_TARGET_Avx2))

// Calls `visit` with a tag value of the vector set that matches `simd` and returns its result.
template <typename Visit>
auto VisitSimd([[maybe_unused]] Simd simd, Visit visit) {
#ifdef __x86_64__
  if (simd == Simd::kAvx512) return visit(Avx512{});
  if (simd == Simd::kAvx2) return visit(Avx2{});
#endif
  return visit(Sse{});
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_SIMD_H_
