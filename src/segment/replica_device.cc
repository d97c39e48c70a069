#include "segment/replica_device.h"

#include "exchange/kernels/executor_registry.h"

namespace millrace::inline segment {

ReplicaDevice ReplicaOn(Device& device, RangeLock* lock, WriteOrder* order) {
  return {&device, [&device, lock, order](const ReplicaArrays& arrays, const CodecConfig& codec,
                                          const MergeRuleConfig& rule) {
            return ExecutorRegistry::Get().Make(device, arrays, codec, rule,
                                                {.lock = lock, .order = order});
          }};
}

ReplicaDevice HostReplica(RangeLock* lock) { return ReplicaOn(HostDevice(), lock); }

ReplicaDevice DeviceReplica(DeviceType type, int ordinal) {
  return ReplicaOn(DeviceRegistry::Get().Find(type, ordinal));
}

}  // namespace millrace::inline segment
