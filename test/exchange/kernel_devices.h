// Devices that run kernels: emulated ones with teams of several sizes, and the GPUs of this
// machine. Also a replica in device memory.
#ifndef MILLRACE_TEST_EXCHANGE_KERNEL_DEVICES_H_
#define MILLRACE_TEST_EXCHANGE_KERNEL_DEVICES_H_

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "exchange/kernels/executor_registry.h"
#include "exchange/kernels/stream_executor.h"
#include "millrace/device.h"
#include "test/exchange/replica.h"
#include "test/support/cuda_devices.h"
#include "test/support/emulated_launcher.h"
#include "test/support/support.h"

namespace millrace::test {

struct KernelDevice {
  std::string name;
  size_t lanes = 0;  // of an emulated device; 0: a GPU
  int ordinal = 0;
};
inline void PrintTo(const KernelDevice& device, std::ostream* out) { *out << device.name; }

// Lists at least one GPU, so that tests report a missing one as skipped.
inline std::vector<KernelDevice> KernelDevices() {
  std::vector<KernelDevice> all;
  for (size_t lanes : {1, 5, 32, 256}) all.push_back({StrCat("emulated", lanes), lanes});
  for (const int ordinal : CudaOrdinals()) all.push_back({StrCat("cuda", ordinal), 0, ordinal});
  return all;
}

// Returns the reason why the device is missing, or "".
inline std::string WhyMissing(const KernelDevice& device) {
  return device.lanes > 0 ? "" : WhyNoCudaDevice(device.ordinal);
}

// The device itself: `fake`, or a GPU.
inline Device& DeviceOf(const KernelDevice& device, FakeDevice* fake) {
  if (device.lanes > 0) return *fake;
  return DeviceRegistry::Get().Find(DeviceType::kCuda, device.ordinal);
}

// An executor on arrays in the memory of DeviceOf(device, fake).
inline std::unique_ptr<StreamExecutor> ExecutorOn(const KernelDevice& device, FakeDevice* fake,
                                                  const ReplicaArrays& arrays,
                                                  const CodecConfig& codec,
                                                  const StreamLimits& limits) {
  if (device.lanes == 0) {
    auto made =
        ExecutorRegistry::Get().Make(DeviceOf(device, fake), arrays, codec, {}, {.limits = limits});
    return std::unique_ptr<StreamExecutor>(static_cast<StreamExecutor*>(made.release()));
  }
  return std::make_unique<StreamExecutor>(
      *fake,
      std::make_unique<EmulatedLauncher<>>(
          EmulatedOptions{.lanes = device.lanes, .seed = Seed(), .device = fake}),
      arrays, codec, limits);
}

inline bool SameFloats(const float* a, const float* b, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (memcmp(a + i, b + i, 4) != 0 && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  }
  return true;
}

class DeviceReplica {
 public:
  DeviceReplica(MemorySpace& space, const ReplicaArrays& like)
      : space_(space), floats_(like.size), memory_(space, 4 * (3 + kMaxStateFloats) * like.size) {
    float* const at = memory_.get<float>();
    arrays_ = {at, at + floats_, at + 2 * floats_, at + 3 * floats_, like.size, like.chunk_floats};
  }
  const ReplicaArrays& arrays() const { return arrays_; }
  void CopyFrom(const ReplicaArrays& host) {
    for (auto array : kArrays) {
      space_.CopyFromHost(arrays_.*array, host.*array, 4 * FloatsOf(array));
    }
  }
  // Compares all bits, except the payloads of NaNs, which differ between processors.
  bool Equals(const ReplicaArrays& host) const {
    std::vector<float> own(kMaxStateFloats * floats_);
    for (auto array : kArrays) {
      space_.CopyToHost(own.data(), arrays_.*array, 4 * FloatsOf(array));
      if (!SameFloats(own.data(), host.*array, FloatsOf(array))) return false;
    }
    return true;
  }

 private:
  static constexpr float* ReplicaArrays::*kArrays[] = {
      &ReplicaArrays::weights, &ReplicaArrays::base, &ReplicaArrays::pending,
      &ReplicaArrays::rule_state};
  int64_t FloatsOf(float* ReplicaArrays::*array) const {
    return array == &ReplicaArrays::rule_state ? kMaxStateFloats * floats_ : floats_;
  }

  MemorySpace& space_;
  const int64_t floats_;
  Buffer memory_;
  ReplicaArrays arrays_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_EXCHANGE_KERNEL_DEVICES_H_
