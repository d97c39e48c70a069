// Host-side launch of the exchange's CUDA kernels, by merge rule.
#ifndef MILLRACE_EXCHANGE_KERNELS_CUDA_LAUNCH_H_
#define MILLRACE_EXCHANGE_KERNELS_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <functional>
#include <map>
#include <string>

#include "exchange/kernels/kernel_op.h"
#include "exchange/kernels/rules/merge_rule_registry.h"

namespace millrace::inline exchange {

// Queues a kernel for `batch` on `stream`, with one thread block per chain. Returns
// cudaGetLastError() after the launch.
using ExchangeLaunch = std::function<cudaError_t(const KernelBatch& batch, cudaStream_t stream)>;

// The rules of which this build has kernels. Registration is not thread-safe; it happens before
// main(). The rest is thread-safe.
class CudaRuleRegistry {
 public:
  using Maker = std::function<ExchangeLaunch(const RuleParameters& parameters)>;

  static CudaRuleRegistry& Get();
  void Register(const std::string& name, Maker maker);
  // Throws Error if the rule is unknown, a parameter is wrong, or there is no kernel for it.
  ExchangeLaunch Make(const MergeRuleConfig& rule) const;

 private:
  std::map<std::string, Maker> makers_;
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_CUDA_LAUNCH_H_
