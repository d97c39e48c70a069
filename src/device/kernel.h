// Kernels: code that a device runs once for each element or row, written once for all devices.
//
// A kernel is a struct of numbers and pointers to memory that the device can access, with
//   template <typename Visit> void Pointers(Visit visit)
//                                  calls visit(pointer) for each of its pointers, by reference
// and one of
//   MILLRACE_HOST_DEVICE void operator()(int64_t i) const
//                                  element i; the elements run in any order and at the same time
//   template <typename Team> MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const
//                                  row `row`, computed by a team of threads (device/team.h)
//
// Kernels are defined in headers. The file for a type of device registers launchers for them: for
// CUDA, a NAME_cuda.cu with a RegisterCudaKernels (device/cuda_kernel.h).
#ifndef MILLRACE_DEVICE_KERNEL_H_
#define MILLRACE_DEVICE_KERNEL_H_

#include <cstdint>
#include <map>

#include "base/error.h"
#include "base/host_device.h"
#include "millrace/device.h"
#include "millrace/queue.h"

namespace millrace {

// Launchers of a kernel by type of device. Registration happens before main(); the rest is
// thread-safe.
template <typename Kernel>
class KernelLaunchers {
 public:
  // Enqueues the kernel for elements or rows [0, count).
  using Launcher = void (*)(Queue& queue, int64_t count, const Kernel& kernel);

  static void Register(DeviceType type, Launcher launcher) { Table()[type] = launcher; }
  // Null if this type of device has none.
  static Launcher Find(DeviceType type) {
    const auto found = Table().find(type);
    return found == Table().end() ? nullptr : found->second;
  }

 private:
  static std::map<DeviceType, Launcher>& Table() {
    static std::map<DeviceType, Launcher> table;
    return table;
  }
};

// Enqueues the kernel for elements or rows [0, count); nothing if count is 0. Throws Error if the
// device of the queue has failed, or if its type has no launcher for the kernel.
template <typename Kernel>
void Launch(Queue& queue, int64_t count, const Kernel& kernel) {
  if (count == 0) return;
  const auto launcher = KernelLaunchers<Kernel>::Find(queue.device().type());
  if (launcher == nullptr) throw Error(queue.device().name(), ": this build lacks a kernel for it");
  launcher(queue, count, kernel);
}

}  // namespace millrace

#endif  // MILLRACE_DEVICE_KERNEL_H_
