// Element kernels (device/kernel.h) four elements at a time: a GPU then loads and stores 16 bytes
// at once.
#ifndef MILLRACE_DEVICE_ELEMENT_PACK_H_
#define MILLRACE_DEVICE_ELEMENT_PACK_H_

#include <cstdint>
#include <type_traits>

#include "base/host_device.h"

namespace millrace::inline device {

inline constexpr int kPack = 4;

struct VisitNoElements {
  template <typename Value>
  MILLRACE_HOST_DEVICE void operator()(Value*&) const {}
};
// The kernel, or an operation of another kernel, has Elements (device/kernel.h).
template <typename Kernel>
concept PackedKernel = requires(Kernel& kernel) {
  kernel.Elements(VisitNoElements());
};

// Whether packs may begin at element `first`.
template <PackedKernel Kernel>
MILLRACE_HOST_DEVICE bool HasAlignedElements(const Kernel& kernel, int64_t first = 0) {
  Kernel own = kernel;
  bool aligned = true;
  own.Elements([&](auto*& array) {
    aligned = aligned && reinterpret_cast<uintptr_t>(array + first) % (kPack * sizeof(*array)) == 0;
  });
  return aligned;
}

// Values of one array, of any type of 4 bytes.
struct alignas(16) [[gnu::may_alias]] ElementPack {
  uint32_t bits[kPack];
};

// Loads elements [first, first + kPack) of the arrays, calls run(own), and stores them. The arrays
// of `own`, a copy of `kernel`, begin at element `first` and have kPack elements. Loads of what is
// not used, the compiler removes.
template <PackedKernel Kernel, typename Run>
MILLRACE_HOST_DEVICE void WithPack(const Kernel& kernel, int64_t first, Run run) {
  constexpr int kMaxArrays = 6;
  ElementPack packs[kMaxArrays];
  Kernel own = kernel;
  int n = 0;
  own.Elements([&](auto*& array) {
    using Pointer = std::remove_reference_t<decltype(array)>;
    static_assert(sizeof(*array) == sizeof(uint32_t));
    packs[n] = *reinterpret_cast<const ElementPack*>(array + first);
    array = reinterpret_cast<Pointer>(packs[n].bits);
    ++n;
  });
  run(own);
  Kernel at = kernel;
  n = 0;
  at.Elements([&](auto*& array) {
    if constexpr (!std::is_const_v<
                      std::remove_pointer_t<std::remove_reference_t<decltype(array)>>>) {
      *reinterpret_cast<ElementPack*>(array + first) = packs[n];
    }
    ++n;
  });
}

// Runs the kernel for elements [first, first + kPack).
template <PackedKernel Kernel, typename Index>
MILLRACE_HOST_DEVICE void RunPack(const Kernel& kernel, Index first) {
  WithPack(kernel, first, [&](const Kernel& own) {
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int at = 0; at < kPack; ++at) {
      if constexpr (requires { own.Run(first, at); }) {
        own.Run(first + static_cast<Index>(at), at);
      } else {
        own(at);
      }
    }
  });
}

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_ELEMENT_PACK_H_
