// Sums over a chunk of products of a diff d and the first float of a rule's state s: how far they
// point the same way, for rules with Aligned() (merge_rule.h). Floating-point sums depend on their
// order, so all executors add in the same one: the products of the elements i with equal
// i % kAlignmentLanes are added in the order of i, and the lanes' sums in the order of lanes.
#ifndef MILLRACE_EXCHANGE_KERNELS_ALIGNMENT_H_
#define MILLRACE_EXCHANGE_KERNELS_ALIGNMENT_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline exchange {

inline constexpr uint32_t kAlignmentLanes = 32;

// By lane: the sums of d s, d d and s s. All zero at first.
struct AlignmentSums {
  float ds[kAlignmentLanes], dd[kAlignmentLanes], ss[kAlignmentLanes];
};

// The rule that merges the diff.
template <typename Rule>
MILLRACE_HOST_DEVICE Rule AlignedBy(const Rule& rule, const AlignmentSums& sums) {
  float ds = 0, dd = 0, ss = 0;
  for (uint32_t lane = 0; lane < kAlignmentLanes; ++lane) {
    ds += sums.ds[lane];
    dd += sums.dd[lane];
    ss += sums.ss[lane];
  }
  return rule.Aligned(ds, dd, ss);
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_ALIGNMENT_H_
