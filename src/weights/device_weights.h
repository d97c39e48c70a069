// The weights of a run in the memory of a device: the replica that the device's solver trains on.
#ifndef MILLRACE_WEIGHTS_DEVICE_WEIGHTS_H_
#define MILLRACE_WEIGHTS_DEVICE_WEIGHTS_H_

#include <atomic>
#include <cstdint>

#include "device/write_order.h"
#include "millrace/device.h"

namespace millrace::inline weights {

// Thread-safe. Work on the device's queues reads and changes the array.
class DeviceWeights {
 public:
  // An array of `size` zeros. `device` outlives it. Throws OutOfMemory.
  DeviceWeights(Device* device, int64_t size);
  DeviceWeights(const DeviceWeights&) = delete;
  DeviceWeights& operator=(const DeviceWeights&) = delete;

  Device& device() const { return device_; }
  // size() floats in the memory of the device, in the order of the ParamLayout.
  float* data() const { return memory_.get<float>(); }
  int64_t size() const { return size_; }
  // All work that changes the array keeps to this order.
  WriteOrder& order() { return order_; }

  // Copy the whole array from and to the host. The caller waits for queues that use the array.
  void CopyFromHost(const float* host);
  void CopyToHost(float* host) const;

  // Counts an iteration of this device's solver whose update has been enqueued.
  void CountIteration() { iterations_.fetch_add(1, std::memory_order_release); }
  uint64_t iterations() const { return iterations_.load(std::memory_order_acquire); }

 private:
  Device& device_;
  const int64_t size_;
  const Buffer memory_;
  WriteOrder order_;
  std::atomic<uint64_t> iterations_{0};
};

}  // namespace millrace::inline weights

#endif  // MILLRACE_WEIGHTS_DEVICE_WEIGHTS_H_
