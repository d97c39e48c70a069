// A queue of kernels on one device: all that stream_executor.h needs of a GPU. CUDA's is in
// cuda_stream.cc, found by the kind of device; tests have one that runs the same kernel
// body (kernel_body.h) on the host.
#ifndef MILLRACE_EXCHANGE_KERNELS_KERNEL_STREAM_H_
#define MILLRACE_EXCHANGE_KERNELS_KERNEL_STREAM_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "exchange/kernels/kernel_op.h"
#include "exchange/kernels/merge_rule.h"

namespace millrace {

// One thread at a time. Constructors and Share throw Error with one line; the rest does not
// throw and allocates nothing.
class KernelStream {
 public:
  // Kernels that may be under way at once.
  static constexpr size_t kMostLaunches = 8;

  // The device works on nothing that was launched any more when this returns.
  virtual ~KernelStream() = default;

  // "cuda device 0", for messages.
  virtual const std::string& name() const = 0;
  // Memory that host and kernels both reach under one address, as fast as any; the stream's.
  virtual MemorySpace& shared() = 0;
  // Set-up: lets kernels reach `memory`, which outlives the stream: the device's own, or the
  // host's. The address by which they do; null if they cannot, and the call changes nothing.
  virtual std::byte* Share(std::span<const std::byte> memory) = 0;

  // Queues a kernel for `batch`, and behind it the mark `slot` (below kMostLaunches, not under
  // way), which it reaches once the kernel has written all its results and reads nothing of
  // the batch any more. The batch and what it names stay as they are until then.
  virtual void Launch(const KernelBatch& batch, size_t slot) = 0;
  // Whether the mark has been reached. After a failure: true.
  virtual bool Reached(size_t slot) = 0;
  // Returns when it has been. After a failure: at once, or once the device has stopped.
  virtual void Wait(size_t slot) = 0;
  // Why the device has failed, in one line; "" if it has not. Nothing that was under way
  // then has a result that could be used, and the device touches its memory no more.
  virtual const std::string& failure() const = 0;
};

// The streams that are compiled into this program, by kind of device.
class KernelStreamRegistry {
 public:
  using Maker = std::unique_ptr<KernelStream> (*)(int ordinal, const MergeRuleConfig& rule);

  static KernelStreamRegistry& Get();
  void Register(DeviceType type, Maker maker);
  // For chunks merged by `rule`. Throws Error: this build has no kernels for such devices, or
  // this machine no such device.
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
