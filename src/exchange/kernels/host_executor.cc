#include "exchange/kernels/host_executor.h"

#include "exchange/kernels/executor_registry.h"

namespace millrace::inline exchange {

std::unique_ptr<ChunkExecutor> MakeHostExecutor(const ReplicaArrays& arrays,
                                                const CodecConfig& codec,
                                                const MergeRuleConfig& rule, Simd simd,
                                                RangeLock* lock) {
  return MergeRuleRegistry::Get().MakeHostExecutor(arrays, codec, rule, simd, lock);
}

namespace {

std::unique_ptr<ChunkExecutor> Make(Device&, const ReplicaArrays& arrays, const CodecConfig& codec,
                                    const MergeRuleConfig& rule, const ExecutorOptions& options) {
  return MakeHostExecutor(arrays, codec, rule, BestSimd(), options.lock);
}

const RegisterExecutor host_executor(DeviceType::kCpu, Make);

}  // namespace
}  // namespace millrace::inline exchange
