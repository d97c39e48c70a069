// Copies blocks of values between blobs of different shapes, on any device: the layers that move
// values (Concat, Slice, Crop, Permute, Tile) describe their work as such copies.
#ifndef MILLRACE_NN_LAYERS_STRIDED_COPY_H_
#define MILLRACE_NN_LAYERS_STRIDED_COPY_H_

#include <cstdint>

#include "millrace/queue.h"
#include "nn/layers/strided_copy_kernels.h"

namespace millrace::inline nn {

class StridedCopy {
 public:
  // Adds an axis inside of those that were added before: `size` values, `from_step` apart in the
  // source and `to_step` apart in the destination. Axes that can be one are joined. Throws Error if
  // more than StridedBlock::kMaxAxes remain.
  void AddAxis(int64_t size, int64_t from_step, int64_t to_step);
  // The copy in the other direction.
  StridedCopy Reversed() const;
  // Enqueues the copy from `from` to `to`, the addresses of the block's first value, in the memory
  // of the queue's device.
  void Run(Queue& queue, const float* from, float* to) const;

 private:
  int64_t count(int axes) const;

  StridedBlock block_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_STRIDED_COPY_H_
