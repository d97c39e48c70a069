// Additive merge rule, the default: a worker sends all of its progress and the master adds it. With
// one master and no losses this is asynchronous SGD with the sum of all workers' updates (Recht,
// Re, Wright, Niu: "Hogwild!", NIPS 2011).
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_ADDITIVE_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_ADDITIVE_RULE_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline exchange {

struct AdditiveRule {
  static constexpr int kStateFloats = 0;
  static constexpr bool kZeroChangesNothing = true;

  template <typename T>
  MILLRACE_HOST_DEVICE T Select(T u) const {
    return u;
  }
  template <typename T>
  MILLRACE_HOST_DEVICE T Residual(T u, T d) const {
    return u - d;
  }
  template <typename T>
  MILLRACE_HOST_DEVICE T Apply(T w, T d, T* /*state*/, uint32_t /*staleness*/) const {
    return w + d;
  }
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_ADDITIVE_RULE_H_
