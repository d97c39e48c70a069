#include "nn/layers/row_gather.h"

#include <limits>

#include "base/error.h"
#include "device/kernel.h"
#include "nn/layers/row_index_kernels.h"

namespace millrace::inline nn {

void RowGather::Reserve(Queue& queue, int64_t rows, int64_t width, int64_t positions) {
  if (positions > std::numeric_limits<int32_t>::max()) {
    throw FieldError("bottom", "has ", positions, " indices, expected at most ",
                     std::numeric_limits<int32_t>::max());
  }
  queue_ = &queue;
  rows_ = rows;
  width_ = width;
  positions_ = positions;
  const size_t bytes = 2 * positions * sizeof(int32_t);
  if (links_.bytes() < bytes) {
    queue.Synchronize();  // work may use the old memory
    links_ = Buffer(queue.device().memory(), bytes);
  }
  check_.Reserve(queue);
}

void RowGather::Forward(const float* index, const float* table, const float* bias, float* out) {
  const RowIndices indices{rows_, index};
  Launch(*queue_, positions_, GatherRows{indices, width_, table, bias, out});
  check_.Enqueue(*queue_, rows_, positions_, index);
}

void RowGather::AddBackward(const float* index, const float* diff, float* table_diff) {
  const RowIndices indices{rows_, index};
  auto* const next = links_.get<int32_t>();
  int32_t* const first = next + positions_;
  Launch(*queue_, positions_, LinkEqualRows{positions_, indices, next});
  Launch(*queue_, positions_, MarkFirstRows{indices, first});
  Launch(*queue_, positions_, AddGatheredRows{indices, width_, next, first, diff, table_diff});
}

}  // namespace millrace::inline nn
