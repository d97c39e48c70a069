// Kernels (device/kernel.h) that copy a block of values between arrays with different strides.
#ifndef MILLRACE_NN_LAYERS_STRIDED_COPY_KERNELS_H_
#define MILLRACE_NN_LAYERS_STRIDED_COPY_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline nn {

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
  template <typename Visit>
  void Pointers(Visit visit) {
    visit(from), visit(to);
  }
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
  template <typename Visit>
  void Pointers(Visit visit) {
    visit(from), visit(to);
  }
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

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_STRIDED_COPY_KERNELS_H_
