// The rows of a learnable matrix, scaled to the length 1, for layers with `normalize`. The fork
// that has them overwrites the matrix with its unit rows in each forward pass; here passes do not
// write to shared weights. The results are the same, and the gradients exact: a step along them
// turns a row and keeps its length.
#ifndef MILLRACE_NN_LAYERS_INNER_PRODUCT_UNIT_ROWS_H_
#define MILLRACE_NN_LAYERS_INNER_PRODUCT_UNIT_ROWS_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

// Used by the thread that uses the queue.
class UnitRows {
 public:
  explicit UnitRows(MemorySpace& memory);

  // Takes the size of the matrix. Call before the passes.
  void Reshape(int64_t rows, int64_t columns);
  // Enqueues the computation of values() from those of the matrix. Rows of zeros remain.
  void Forward(Queue& queue, const float* matrix);
  // Enqueues the gradient by the matrix, given unit().blob->diff() by its unit rows. Adds to what
  // `matrix` has, or overwrites it, as Param::has_gradient says.
  void Backward(Queue& queue, const Param& matrix);

  const float* values() const { return unit_.blob->data(); }
  // In place of the matrix: its diff() is to be overwritten before each Backward.
  const Param& unit() const { return unit_; }

 private:
  Param unit_;
  Blob inverse_;  // 1 / length, of each row
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_INNER_PRODUCT_UNIT_ROWS_H_
