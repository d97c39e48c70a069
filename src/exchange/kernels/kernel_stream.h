// A stream of kernels on one device: the interface between stream_executor.h and a GPU.
// cuda_stream.cc implements it for CUDA; it is found by device type. Tests use an implementation
// that runs the same kernel body (kernel_body.h) on the host.
#ifndef MILLRACE_EXCHANGE_KERNELS_KERNEL_STREAM_H_
#define MILLRACE_EXCHANGE_KERNELS_KERNEL_STREAM_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "exchange/kernels/kernel_op.h"
#include "exchange/kernels/merge_rule_registry.h"

namespace millrace {

// Not thread-safe. Constructors and the registration of memory throw Error with a one-line message.
// The other functions neither throw nor allocate.
class KernelStream {
 public:
  // Maximum number of kernels in flight.
  static constexpr size_t kMostLaunches = 8;

  // Returns only after the device has finished all launched work.
  virtual ~KernelStream() = default;

  // "cuda device 0", for messages.
  virtual const std::string& name() const = 0;
  // Memory that host and kernels access at the same address with the best speed. Valid for the
  // lifetime of the stream.
  virtual MemorySpace& shared() = 0;
  // For set-up: makes `memory`, which must outlive the stream, accessible to kernels. It is the
  // device's own memory or host memory. Returns its address on the device; null, without effect, if
  // it cannot be made accessible.
  virtual std::byte* RegisterMemory(std::span<const std::byte> memory) = 0;

  // Queues a kernel for `batch`, followed by the mark `slot` (below kMostLaunches, not in flight).
  // The mark is reached once the kernel has written all results and no longer reads the batch.
  // Until then the caller must not change the batch or the memory to which it points.
  virtual void Launch(const KernelBatch& batch, size_t slot) = 0;
  // Waits until the mark is reached. After a failure, returns immediately or once the device has
  // stopped.
  virtual void Wait(size_t slot) = 0;
  // One-line reason of the device's failure; "" if there is none. After a failure, operations in
  // flight have no usable results and the device no longer accesses their memory.
  virtual const std::string& failure() const = 0;
};

// Stream implementations compiled into this program, by device type.
class KernelStreamRegistry {
 public:
  using Maker = std::unique_ptr<KernelStream> (*)(int ordinal, const MergeRuleConfig& rule);

  static KernelStreamRegistry& Get();
  void Register(DeviceType type, Maker maker);
  // Creates a stream for chunks that are merged by `rule`. Throws Error if this build has no
  // kernels for the device type or the rule, or the machine has no such device.
  std::unique_ptr<KernelStream> Make(DeviceType type, int ordinal, const MergeRuleConfig& rule);

 private:
  struct Entry {
    DeviceType type;
    Maker maker;
  };
  std::vector<Entry> entries_;
};

struct RegisterKernelStream {
  RegisterKernelStream(DeviceType type, KernelStreamRegistry::Maker maker) {
    KernelStreamRegistry::Get().Register(type, maker);
  }
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_KERNEL_STREAM_H_
