// The loops of the host executor (host_loops-inl.h, span_loops-inl.h) for every instruction set
// (base/simd.h). Highway includes them once for each set, in a namespace and with the compiler's
// options of the set.
#ifndef MILLRACE_EXCHANGE_KERNELS_HOST_LOOPS_H_
#define MILLRACE_EXCHANGE_KERNELS_HOST_LOOPS_H_

#include "base/simd.h"
#include "exchange/kernels/host_types.h"
#include "exchange/kernels/rules/span_rule.h"

// All but those of base/simd.h.
#define HWY_DISABLED_TARGETS \
  (HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#define HWY_TARGET_INCLUDE "exchange/kernels/span_loops-inl.h"
// A debug build of Highway checks indices, of which absent lanes have none.
#define HWY_IS_DEBUG_BUILD 0
#if defined(__x86_64__) && !defined(__SSSE3__)
#error "Highway has no vectors for SSE2: compile with -mssse3"
#endif
#include <hwy/foreach_target.h>
// The baseline, last.
#include "exchange/kernels/span_loops-inl.h"

namespace millrace::inline exchange {

// Calls `visit` with the Target of the set and returns its result. Functions of the set are found
// by an argument of this type.
template <typename Visit>
auto VisitTarget([[maybe_unused]] Simd simd, Visit visit) {
#if HWY_ARCH_X86
  if (simd == Simd::kAvx512) return visit(N_AVX3::Target());
  if (simd == Simd::kAvx2) return visit(N_AVX2::Target());
#endif
  return visit(HWY_NAMESPACE::Target());
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_LOOPS_H_
