// Runs kernels (device/kernel.h) on the fake device, and makes layers and update rules for GPUs
// available there.
#ifndef MILLRACE_TEST_SUPPORT_FAKE_GPU_H_
#define MILLRACE_TEST_SUPPORT_FAKE_GPU_H_

#include <cstdint>

#include "device/kernel.h"
#include "test/support/fake_device.h"

namespace millrace::test {

// Elements run in descending order: code that relies on another order fails.
template <typename Kernel>
void LaunchFake(Queue& queue, int64_t count, const Kernel& kernel) {
  FakeQueue& fake = FakeQueue::Of(queue);
  const auto& device = static_cast<const FakeDevice&>(fake.device());
  fake.Enqueue([kernel = kernel, count, &device]() mutable {
    kernel.Pointers([&](auto& pointer) { pointer = device.Alias(pointer); });
    if constexpr (ElementKernel<Kernel>) {
      for (int64_t i = count - 1; i >= 0; --i) kernel(i);
    } else {
      TeamArea<SerialLanes::kThreads> area;
      Team<SerialLanes> team(&area, SerialLanes{});
      for (int64_t row = count - 1; row >= 0; --row) kernel(team, row);
    }
  });
}

// Define one at namespace scope.
template <typename... Kernels>
struct RegisterFakeKernels {
  RegisterFakeKernels() {
    (KernelLaunchers<Kernels>::Register(kFakeDevice, &LaunchFake<Kernels>), ...);
  }
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_FAKE_GPU_H_
