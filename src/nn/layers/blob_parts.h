// Copies between a blob in plain order and its parts along one axis, on any device.
#ifndef MILLRACE_NN_LAYERS_BLOB_PARTS_H_
#define MILLRACE_NN_LAYERS_BLOB_PARTS_H_

#include <cstdint>

#include "millrace/blob.h"
#include "nn/layers/strided_copy.h"

namespace millrace::inline nn {

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

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_BLOB_PARTS_H_
