// The master's weights become the mean of those of all members, a diff at a time:
//   Apply(w, d) = w + share d,   share = 1 / number of members
// or, where the members' iterations have different numbers of examples, in proportion to these.
// With the learning rate of one node this is local SGD (Stich: "Local SGD converges fast and
// communicates little", ICLR 2019) without its barrier. At N times that rate, the sum of N nodes'
// progress is that of additive. Until a node's progress is merged, it counts N times in the weights
// of that node, for that of the others which is on its way (docs/exchange.md, "Averages").
//
// No state. Worker: Select(u) = u, Residual(u, d) = u - d. Fixed point: u = 0.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_AVERAGE_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_AVERAGE_RULE_H_

#include <cstdint>

#include "base/host_device.h"
#include "exchange/kernels/rules/additive_rule.h"

namespace millrace::inline exchange {

struct AverageRule : AdditiveRule {
  static constexpr bool kMergesOwn = true;
  static constexpr bool kTakesShare = true;
  float share = 1;

  template <typename T>
  MILLRACE_HOST_DEVICE T Apply(T w, T d, T* /*state*/, uint32_t /*staleness*/) const {
    return w + share * d;
  }
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_AVERAGE_RULE_H_
