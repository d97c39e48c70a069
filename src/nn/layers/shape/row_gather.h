// Rows that are chosen by indices, and the check of such indices.
#ifndef MILLRACE_NN_LAYERS_SHAPE_ROW_GATHER_H_
#define MILLRACE_NN_LAYERS_SHAPE_ROW_GATHER_H_

#include <cstdint>
#include <string>

#include "millrace/blob.h"
#include "millrace/device.h"
#include "millrace/queue.h"

namespace millrace::inline nn {

// Finds indices that are out of range, which only the device has read.

// Used by the thread that uses the queue.
class IndexCheck {
 public:
  // Call before the passes.
  void Reserve(Queue& queue);
  // Enqueues the count of the values of index {count} that are not in [0, limit).
  void Enqueue(Queue& queue, int64_t limit, int64_t count, const float* index);
  // Whether the last Enqueue, whose work has completed, found any.
  bool found() const { return *invalid_on_host_.get<float>() > 0; }
  // Throws Error naming `layer` and the first index that is out of range. `indices` were those of
  // the last Enqueue, whose work has completed. Cheap if all are valid.
  void Check(const std::string& layer, int64_t limit, const Blob& indices) const;

 private:
  Buffer invalid_;          // a float: the number of invalid indices
  Buffer invalid_on_host_;  // the same in staging memory
};

// Gathers rows of a table by indices, and the gradient of that, on any device:
//   out[i] = table[index[i]] + bias      dE/dtable[r] = sum over i with index[i] = r of dE/dout[i]
// The sums have a fixed order, so that results are reproducible. Used by the thread that uses the
// queue.
class RowGather {
 public:
  // Reserves memory for `positions` indices into a table of `rows` rows with `width` values each.
  // `queue` outlives the object's last use. Throws FieldError("bottom", ...) for more positions
  // than supported.
  void Reserve(Queue& queue, int64_t rows, int64_t width, int64_t positions);

  // Enqueues the gathering. `bias` {width} may be null. All arrays are in the device's memory.
  void Forward(const float* index, const float* table, const float* bias, float* out);
  // Enqueues the addition of the gradient to table_diff.
  void AddBackward(const float* index, const float* diff, float* table_diff);
  // Throws Error as IndexCheck does, for the indices of the last Forward.
  void Check(const std::string& layer, const Blob& indices) const {
    check_.Check(layer, rows_, indices);
  }

 private:
  Queue* queue_ = nullptr;
  int64_t rows_ = 0, width_ = 0, positions_ = 0;
  Buffer links_;  // next and first of every position (row_index_kernels.h)
  IndexCheck check_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SHAPE_ROW_GATHER_H_
