// Runs kernels (device/kernel.h) on the fake device, and makes layers and update rules for GPUs
// available there.
#ifndef MILLRACE_TEST_SUPPORT_FAKE_GPU_H_
#define MILLRACE_TEST_SUPPORT_FAKE_GPU_H_

#include <cstdint>

#include "device/kernel.h"
#include "test/support/fake_device.h"
#include "test/support/kernel_pointers.h"

namespace millrace::test {

// Runs the kernel in the form that a GPU would choose (ChooseForm). Elements run in descending
// order: code that relies on another order fails.
template <typename Kernel>
void RunLikeGpu(int64_t count, const Kernel& kernel) {
  ChooseForm(count, kernel, [&](auto index, auto packed) {
    using Index = decltype(index);
    const auto n = static_cast<Index>(count);
    if constexpr (!ElementKernel<Kernel>) {
      TeamArea<SerialLanes::kThreads> area;
      Team<SerialLanes> team(&area, SerialLanes{});
      for (Index row = n - 1; row >= 0; --row) kernel(team, row);
    } else if constexpr (packed) {
      for (Index i = n - 1; i >= n / kPack * kPack; --i) kernel(i);
      for (Index i = n / kPack - 1; i >= 0; --i) RunPack(kernel, kPack * i);
    } else {
      for (Index i = n - 1; i >= 0; --i) kernel(i);
    }
  });
}

// Enqueues the kernel on the fake device.
template <typename Kernel>
void LaunchFake(Queue& queue, int64_t count, const Kernel& kernel) {
  FakeQueue& fake = FakeQueue::Of(queue);
  const auto& device = static_cast<const FakeDevice&>(fake.device());
  fake.Enqueue([kernel = kernel, count, &device]() mutable {
    ReplacePointers(&kernel, [&](std::byte* pointer) { return device.Alias(pointer); });
    RunLikeGpu(count, kernel);
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
