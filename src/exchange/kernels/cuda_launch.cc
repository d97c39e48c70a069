#include "exchange/kernels/cuda_launch.h"

#include <utility>

#include "base/error.h"
#include "base/registration.h"

namespace millrace::inline exchange {

CudaRuleRegistry& CudaRuleRegistry::Get() {
  static CudaRuleRegistry registry;
  return registry;
}

void CudaRuleRegistry::Register(const std::string& name, Maker maker) {
  if (!makers_.emplace(name, std::move(maker)).second) {
    ReportSecondRegistration("kernel of merge rule", name);
  }
}

ExchangeLaunch CudaRuleRegistry::Make(const MergeRuleConfig& rule) const {
  const MergeRuleDescriptor& descriptor = MergeRuleRegistry::Get().Check(rule);
  const auto found = makers_.find(rule.name);
  if (found == makers_.end()) {
    throw Error("merge rule ", rule.name, " has no kernel for GPUs: expected one that has");
  }
  return found->second(descriptor.WithDefaults(rule.parameters));
}

}  // namespace millrace::inline exchange
