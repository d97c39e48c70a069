// Kernel (device/kernel.h) that copies between an array and the parts of its rows, as Concat and
// Slice do: one launch for all parts.
#ifndef MILLRACE_NN_LAYERS_PART_COPY_KERNELS_H_
#define MILLRACE_NN_LAYERS_PART_COPY_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"
#include "device/element_pack.h"

namespace millrace::inline nn {

// An element is a value of the parts. `Value` is float, or ElementPack where all numbers below are
// multiples of kPack, then in packs, and all arrays are aligned. `kJoin`: from the parts to the
// whole.
template <typename Value, bool kJoin>
struct CopyParts {
  static constexpr int kMaxParts = 8;

  Divisor span;       // values of a row of the whole that belong to the parts
  int64_t row, from;  // values of a row of the whole, and before the first part
  int parts;
  int64_t begin[kMaxParts];  // of the parts, from the first part on
  int64_t size[kMaxParts];   // of a row of a part
  Value* part[kMaxParts];    // null: not copied
  Value* whole;

  static int64_t Extent(int64_t count) { return count; }
  template <typename Visit>
  void Pointers(Visit visit) {
    for (int p = 0; p < parts; ++p) visit(part[p]);
    visit(whole);
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const Index outer = i / span, place = i - outer * span;
    Value* own = part[0] + outer * size[0] + place;
    bool wanted = part[0] != nullptr;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int p = 1; p < kMaxParts; ++p) {  // without an index that is not constant
      if (p >= parts || place < begin[p]) continue;
      own = part[p] + outer * size[p] + (place - begin[p]);
      wanted = part[p] != nullptr;
    }
    if (!wanted) return;
    Value* const at = whole + outer * row + from + place;
    if constexpr (kJoin) {
      *at = *own;
    } else {
      *own = *at;
    }
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_PART_COPY_KERNELS_H_
