#include "nn/layers/shape/row_gather.h"

#include <limits>
#include <vector>

#include "base/error.h"
#include "device/kernel.h"
#include "nn/layers/shape/row_index_kernels.h"

namespace millrace::inline nn {

void IndexCheck::Reserve(Queue& queue) {
  if (invalid_.bytes() > 0) return;
  Device& device = queue.device();
  invalid_ = Buffer(device.memory(), sizeof(float));
  invalid_on_host_ = Buffer(device.staging(), sizeof(float));
  *invalid_on_host_.get<float>() = 0;
}

void IndexCheck::Enqueue(Queue& queue, int64_t limit, int64_t count, const float* index) {
  Launch(queue, 1, CountInvalidRows{count, {limit, index}, invalid_.get<float>()});
  queue.CopyToHost(invalid_on_host_.get(), invalid_.get(), sizeof(float));
}

void IndexCheck::Check(const std::string& layer, int64_t limit, const Blob& blob) const {
  if (!found()) return;
  std::vector<float> copy;
  const RowIndices indices{limit, blob.DataOnHost(&copy)};
  for (int64_t i = 0; i < blob.count(); ++i) {
    if (indices.Valid(i)) continue;
    throw Error("layer '", layer, "': index ", indices.index[i], " at position ", i,
                " is not one of 0 to ", limit - 1);
  }
}

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
