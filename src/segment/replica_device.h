// Where a replica lies, and who works on it there: the host's memory with vectors, or a
// device's with kernels. All that a segment needs to know of either.
#ifndef MILLRACE_SEGMENT_REPLICA_DEVICE_H_
#define MILLRACE_SEGMENT_REPLICA_DEVICE_H_

#include <functional>
#include <memory>

#include "base/range_lock.h"
#include "device/device.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/kernels/merge_rule.h"

namespace millrace {

// Copies are the same home. Thread-safe.
struct ReplicaDevice {
  // Of the weights, and of what else a segment keeps of each; outlives all of these.
  MemorySpace* memory = nullptr;
  // An executor on arrays in that memory. Throws Error with one line.
  std::function<std::unique_ptr<ChunkExecutor>(
      const ReplicaArrays& arrays, const CodecConfig& codec, const MergeRuleConfig& rule)>
      make_executor;
};

// `lock`: of the array that the weights are in, outlives all; null where no solver writes them.
ReplicaDevice HostReplica(RangeLock* lock = nullptr);
// Throws Error with one line: this build knows no such devices, or this machine has no such one.
ReplicaDevice DeviceReplica(DeviceType type, int ordinal);

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_REPLICA_DEVICE_H_
