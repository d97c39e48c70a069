#include "exchange/kernels/host_executor.h"

namespace millrace {

std::unique_ptr<ChunkExecutor> MakeHostExecutor(const ReplicaArrays& arrays,
                                                const CodecConfig& codec,
                                                const MergeRuleConfig& rule, Simd simd,
                                                RangeLock* lock) {
  return MergeRuleRegistry::Get().MakeHostExecutor(arrays, codec, rule, simd, lock);
}

}  // namespace millrace
