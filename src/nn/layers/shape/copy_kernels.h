// Kernels that copy parts of blobs.
#ifndef MILLRACE_NN_LAYERS_SHAPE_COPY_KERNELS_H_
#define MILLRACE_NN_LAYERS_SHAPE_COPY_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"
#include "device/element_pack.h"

namespace millrace::inline nn {

// Kernels (device/kernel.h) that copy a block of values between arrays with different strides.

// The axes of a block, the outermost first. The steps are the distances between neighbours along an
// axis, in values; several values may have one source (a step of 0).
struct StridedBlock {
  static constexpr int kMaxAxes = 8;

  int axes = 0;
  Divisor size[kMaxAxes];
  int64_t from_step[kMaxAxes] = {}, to_step[kMaxAxes] = {};

  // Adds to *from and *to the offsets of element `index`, row-major over axes [0, count).
  template <typename Index>
  MILLRACE_HOST_DEVICE void Locate(int count, Index index, int64_t* from, int64_t* to) const {
    for (int axis = count - 1; axis >= 0; --axis) {
      const Index rest = index / size[axis], place = index - rest * size[axis];
      index = rest;
      *from += place * from_step[axis];
      *to += place * to_step[axis];
    }
  }
};

// An element is a value of the block.
struct CopyElements {
  StridedBlock block;
  const float* from;
  float* to;

  static int64_t Extent(int64_t count) { return count; }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    int64_t source = 0, destination = 0;
    block.Locate(block.axes, i, &source, &destination);
    to[destination] = from[source];
  }
};

// A row is the innermost axis.
struct CopyRows {
  StridedBlock block;
  const float* from;
  float* to;

  static int64_t Extent(int64_t count) { return count; }
  template <typename Team, typename Index>
  MILLRACE_HOST_DEVICE void operator()(Team& team, Index row) const {
    const int last = block.axes - 1;
    int64_t source = 0, destination = 0;
    block.Locate(last, row, &source, &destination);
    const int64_t from_step = block.from_step[last], to_step = block.to_step[last];
    team.ForEach(int64_t{block.size[last]},
                 [&](int64_t i) { to[destination + i * to_step] = from[source + i * from_step]; });
  }
};

// Kernel (device/kernel.h) that copies between an array and the parts of its rows, as Concat and
// Slice do: one launch for all parts.

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

#endif  // MILLRACE_NN_LAYERS_SHAPE_COPY_KERNELS_H_
