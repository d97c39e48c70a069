#include "exchange/kernels/host_executor.h"

#include "exchange/kernels/executor_registry.h"
#include "exchange/kernels/host_rule_executor.h"

namespace millrace {

std::unique_ptr<ChunkExecutor> MakeHostExecutor(const ReplicaArrays& arrays,
                                                const CodecConfig& codec,
                                                const MergeRuleConfig& rule, Simd simd,
                                                RangeLock* lock) {
  return VisitMergeRule(rule, [&](const auto& chosen) -> std::unique_ptr<ChunkExecutor> {
    using Rule = std::decay_t<decltype(chosen)>;
    return std::make_unique<HostRuleExecutor<Rule>>(arrays, codec, chosen, simd, lock);
  });
}

namespace {

std::unique_ptr<ChunkExecutor> Make(Device&, const ReplicaArrays& arrays, const CodecConfig& codec,
                                    const MergeRuleConfig& rule, const ExecutorOptions& options) {
  return MakeHostExecutor(arrays, codec, rule, BestSimd(), options.lock);
}

const RegisterExecutor registered(DeviceType::kCpu, Make);

}  // namespace
}  // namespace millrace
