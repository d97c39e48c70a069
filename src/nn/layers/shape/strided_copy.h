// Copies between blobs: of strided elements, and of parts along an axis.
#ifndef MILLRACE_NN_LAYERS_SHAPE_STRIDED_COPY_H_
#define MILLRACE_NN_LAYERS_SHAPE_STRIDED_COPY_H_

#include <cstdint>
#include <vector>

#include "millrace/layer.h"
#include "millrace/queue.h"
#include "nn/layers/shape/copy_kernels.h"

namespace millrace::inline nn {

// Copies blocks of values between blobs of different shapes, on any device: the layers that move
// values (Concat, Slice, Crop, Permute, Tile) describe their work as such copies.
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

// Copies between a blob in plain order and its parts along one axis, on any device.

// `part` has the values [offset, offset + part.dim(axis)) of `whole` along the axis. The members
// enqueue copies of them between two arrays that are laid out like the blobs.
class BlobPart {
 public:
  BlobPart(const Blob& whole, const Blob& part, int axis, int64_t offset)
      : begin_(offset * whole.count(axis + 1)) {
    insert_.AddAxis(part.count(0, axis), part.count(axis), whole.count(axis));
    insert_.AddAxis(part.count(axis), 1, 1);
  }

  void Insert(Queue& queue, const float* part, float* whole) const {
    insert_.Run(queue, part, whole + begin_);
  }
  void Extract(Queue& queue, const float* whole, float* part) const {
    insert_.Reversed().Run(queue, whole + begin_, part);
  }

 private:
  int64_t begin_;
  StridedCopy insert_;
};

// The parts make up the whole, in order. Up to 8 parts are copied by one kernel.
class BlobParts {
 public:
  BlobParts() = default;
  BlobParts(const Blob& whole, const Blobs& parts, int axis);

  // Enqueue copies. `parts`: an array for each part; null where it is not copied.
  void Join(Queue& queue, const std::vector<const float*>& parts, float* whole) const;
  void Divide(Queue& queue, const float* whole, const std::vector<float*>& parts) const;

 private:
  int64_t outer_ = 0;           // rows
  std::vector<int64_t> sizes_;  // of a row of each part
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SHAPE_STRIDED_COPY_H_
