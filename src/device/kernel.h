// Kernels: code that a device runs once for each element or row, written once for all devices.
//
// A kernel is a struct of numbers and pointers to memory that the device can access, which can be
// copied byte by byte, with one of
//   MILLRACE_HOST_DEVICE void operator()(int64_t i) const
//                                  element i; the elements run in any order and at the same time
//   template <typename Team> MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const
//                                  row `row`, computed by a team of threads (device/team.h)
// What makes a kernel faster on a GPU, both optional:
//   int64_t Extent(int64_t count) const
//                                  the kernel also takes int32_t in place of int64_t, as a template
//                                  over the type of index, and is run so if all indices that it
//                                  computes from 0 <= i < count are less than this number and
//                                  it is below 2^31; shapes that indices are divided by are
//                                  Divisors (device/divisor.h)
//   template <typename Visit> void Elements(Visit visit)
//                                  calls visit(pointer) for each pointer to an array of 4-byte
//                                  values of which element i reads and writes value i only. The
//                                  kernel may then be run for some elements at a time
//                                  (device/element_pack.h), on a copy whose arrays hold these:
//                                  operator()(i), if i serves as index of the arrays only, or else
//                                  Run(Index i, int at), for element i whose values are at `at`
//
// Kernels are defined in headers. The host runs every kernel, in Launch. The file for another type
// of device registers launchers for them: for CUDA, a NAME_cuda.cu with a RegisterCudaKernels
// (device/cuda_kernel.h).
#ifndef MILLRACE_DEVICE_KERNEL_H_
#define MILLRACE_DEVICE_KERNEL_H_

#include <concepts>
#include <cstdint>
#include <map>
#include <type_traits>

#include "base/error.h"
#include "base/host_device.h"
#include "base/simd.h"
#include "device/element_pack.h"
#include "device/team.h"
#include "millrace/device.h"
#include "millrace/queue.h"

namespace millrace::inline device {

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

template <typename Kernel>
concept ElementKernel = std::invocable<const Kernel&, int64_t>;

// Whether the kernel has a form with 32-bit indices.
template <typename Kernel>
concept NarrowKernel = requires(const Kernel& kernel) {
  kernel.Extent(int64_t{});
};

// Calls run(index, packed) once, for the form in which a GPU runs the kernel for [0, count):
// `index` has the type of index, and `packed` is a std::bool_constant: whether elements run in
// packs.
template <typename Kernel, typename Run>
void ChooseForm(int64_t count, const Kernel& kernel, Run run) {
  if constexpr (NarrowKernel<Kernel>) {
    if (count <= INT32_MAX && kernel.Extent(count) <= INT32_MAX) {
      if constexpr (PackedKernel<Kernel>) {
        if (HasAlignedElements(kernel)) return run(int32_t{}, std::true_type());
      }
      return run(int32_t{}, std::false_type());
    }
  } else if constexpr (PackedKernel<Kernel>) {
    if (HasAlignedElements(kernel)) return run(int64_t{}, std::true_type());
  }
  run(int64_t{}, std::false_type());
}

// Element kernels on the host, in vectors of one instruction set where the compiler finds them.
#define MILLRACE_RUN_ELEMENTS(Set)                                          \
  template <typename Kernel>                                                \
  MILLRACE_KERNEL(Set)                                                      \
  void RunElementsOnHost(Set, int64_t count, const Kernel& kernel) {        \
    const Kernel own = kernel; /* its pointers and numbers do not change */ \
    _Pragma("omp simd") for (int64_t i = 0; i < count; ++i) own(i);         \
  }
#ifndef __CUDACC__
MILLRACE_RUN_ELEMENTS(Sse)
MILLRACE_RUN_ELEMENTS(Avx2)
MILLRACE_RUN_ELEMENTS(Avx512)

// Runs the kernel for elements or rows [0, count) on the calling thread.
template <typename Kernel>
void RunOnHost(int64_t count, const Kernel& kernel) {
  if constexpr (ElementKernel<Kernel>) {
    VisitSimd(BestSimd(), [&](auto set) { RunElementsOnHost(set, count, kernel); });
  } else {
    TeamArea<SerialLanes::kThreads> area;
    Team<SerialLanes> team(&area, SerialLanes{});
    for (int64_t row = 0; row < count; ++row) kernel(team, row);
  }
}

// Enqueues the kernel for elements or rows [0, count); nothing if count is 0. On the host it has
// run when Launch returns. Throws Error if the device of the queue has failed, or if its type has
// no launcher for the kernel.
template <typename Kernel>
void Launch(Queue& queue, int64_t count, const Kernel& kernel) {
  if (count == 0) return;
  if (queue.device().type() == DeviceType::kCpu) return RunOnHost(count, kernel);
  const auto launcher = KernelLaunchers<Kernel>::Find(queue.device().type());
  if (launcher == nullptr) throw Error(queue.device().name(), ": this build lacks a kernel for it");
  launcher(queue, count, kernel);
}
#endif
#undef MILLRACE_RUN_ELEMENTS

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_KERNEL_H_
