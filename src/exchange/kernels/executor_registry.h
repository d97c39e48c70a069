// Makers of executors, by the type of the device whose memory holds the replica. Each backend's
// file registers its own: host_executor.cc, cuda_launch.cc.
#ifndef MILLRACE_EXCHANGE_KERNELS_EXECUTOR_REGISTRY_H_
#define MILLRACE_EXCHANGE_KERNELS_EXECUTOR_REGISTRY_H_

#include <cstdint>
#include <map>
#include <memory>

#include "base/threads/range_lock.h"
#include "device/write_order.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/kernels/rules/merge_rule_registry.h"
#include "millrace/device.h"

namespace millrace::inline exchange {

// Sizes of a stream executor (stream_executor.h).
struct StreamLimits {
  uint32_t launch_ops = 256;       // maximum operations per kernel, at least 1
  uint32_t launches = 4;           // maximum kernels in flight, at least 1
  uint32_t stage_bytes = 1 << 20;  // staging bytes per kernel; raised to fit one operation
};

// Each executor uses its own fields.
struct ExecutorOptions {
  // Host: lock of the array that holds the weights; null if no solver writes them.
  RangeLock* lock = nullptr;
  // Other devices: order of the changes of that array, where solvers write it as well; else null.
  WriteOrder* order = nullptr;
  StreamLimits limits{};
};

class ExecutorRegistry {
 public:
  using Maker = std::unique_ptr<ChunkExecutor> (*)(Device& device, const ReplicaArrays& arrays,
                                                   const CodecConfig& codec,
                                                   const MergeRuleConfig& rule,
                                                   const ExecutorOptions& options);

  static ExecutorRegistry& Get();
  void Register(DeviceType type, Maker maker);
  // Throws Error with one line if this build has no exchange for the device's type, or as the
  // executor's constructor does. Device, arrays, lock and order outlive the executor.
  std::unique_ptr<ChunkExecutor> Make(Device& device, const ReplicaArrays& arrays,
                                      const CodecConfig& codec, const MergeRuleConfig& rule,
                                      const ExecutorOptions& options = {}) const;

 private:
  std::map<DeviceType, Maker> makers_;
};

// Define one at namespace scope in the backend's file.
struct RegisterExecutor {
  RegisterExecutor(DeviceType type, ExecutorRegistry::Maker maker) {
    ExecutorRegistry::Get().Register(type, maker);
  }
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_EXECUTOR_REGISTRY_H_
