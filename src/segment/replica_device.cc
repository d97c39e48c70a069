#include "segment/replica_device.h"

#include "base/error.h"
#include "exchange/kernels/host_executor.h"
#include "exchange/kernels/stream_executor.h"

namespace millrace {

ReplicaDevice HostReplica(RangeLock* lock) {
  return {&HostMemory(), [lock](const ReplicaArrays& arrays, const CodecConfig& codec,
                                const MergeRuleConfig& rule) {
            return MakeHostExecutor(arrays, codec, rule, BestSimd(), lock);
          }};
}

ReplicaDevice DeviceReplica(DeviceType type, int ordinal) {
  if (type == DeviceType::kCpu) return HostReplica();
  DeviceDriver* const driver = DeviceRegistry::Get().Find(type);
  if (!driver) {
    throw Error(DeviceTypeName(type), " device ", ordinal, ": this build has no ",
                DeviceTypeName(type), " devices: expected one with CUDA (make CUDA=on)");
  }
  return {&driver->Memory(ordinal),
          [type, ordinal](const ReplicaArrays& arrays, const CodecConfig& codec,
                          const MergeRuleConfig& rule) {
            return std::make_unique<StreamExecutor>(
                KernelStreamRegistry::Get().Make(type, ordinal, rule), arrays, codec);
          }};
}

}  // namespace millrace
