// Location of a replica: the device whose memory holds it, and the executor that updates it there.
// A segment depends on nothing else of either.
#ifndef MILLRACE_SEGMENT_REPLICA_DEVICE_H_
#define MILLRACE_SEGMENT_REPLICA_DEVICE_H_

#include <functional>
#include <memory>

#include "base/threads/range_lock.h"
#include "device/write_order.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/kernels/rules/merge_rule_registry.h"
#include "millrace/device.h"

namespace millrace::inline segment {

// Copies denote the same device. Thread-safe.
struct ReplicaDevice {
  // Its memory holds the weights and the segment's own arrays. Outlives all of them.
  Device* device = nullptr;
  // Makes an executor on arrays in that memory. Throws Error with one line.
  std::function<std::unique_ptr<ChunkExecutor>(
      const ReplicaArrays& arrays, const CodecConfig& codec, const MergeRuleConfig& rule)>
      make_executor;
};

// `lock`, `order`: of the array that holds the weights, outlive the replica and its executors; null
// if no solver writes the weights. The host's executor uses the lock, those of other devices the
// order.
ReplicaDevice ReplicaOn(Device& device, RangeLock* lock = nullptr, WriteOrder* order = nullptr);
ReplicaDevice HostReplica(RangeLock* lock = nullptr);
// Throws Error with one line if this build lacks the device type or this machine lacks the device.
ReplicaDevice DeviceReplica(DeviceType type, int ordinal);

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_REPLICA_DEVICE_H_
