// Factors of diffs by their staleness (ChunkOp::staleness). Made once on the host, because pow(),
// exp() and cos() differ between processors.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_STALENESS_FACTORS_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_STALENESS_FACTORS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline exchange {

struct StalenessFactors {
  // A larger staleness counts as this one.
  static constexpr uint32_t kMaxStaleness = 63;
  float factors[kMaxStaleness + 1] = {};

  StalenessFactors() = default;
  // `factor_of(staleness)` is a double.
  template <typename FactorOf>
  explicit StalenessFactors(FactorOf factor_of) {
    for (uint32_t i = 0; i <= kMaxStaleness; ++i) factors[i] = static_cast<float>(factor_of(i));
  }
  MILLRACE_HOST_DEVICE float Of(uint32_t staleness) const {
    return factors[staleness < kMaxStaleness ? staleness : kMaxStaleness];
  }
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_STALENESS_FACTORS_H_
