// Kernels (device/kernel.h) that gather rows of a table by indices, and sum the gradients of rows
// that were gathered more than once (Embed, BatchReindex). Indices are floats that hold small whole
// numbers; an index outside of the table stands for row 0 here and is an error of the layer
// (row_gather.h).
#ifndef MILLRACE_NN_LAYERS_SHAPE_ROW_INDEX_KERNELS_H_
#define MILLRACE_NN_LAYERS_SHAPE_ROW_INDEX_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

struct RowIndices {
  int64_t rows;  // of the table
  const float* index;

  MILLRACE_HOST_DEVICE bool Valid(int64_t i) const {
    return index[i] >= 0 && index[i] < static_cast<float>(rows);
  }
  MILLRACE_HOST_DEVICE int64_t At(int64_t i) const {
    return Valid(i) ? static_cast<int64_t>(index[i]) : 0;
  }
};

// Row i of the kernel: out[i] = table[index[i]] + bias. `bias` may be null.
struct GatherRows {
  RowIndices indices;
  int64_t width;
  const float* table;
  const float* bias;
  float* out;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t i) const {
    const float* from = table + indices.At(i) * width;
    float* to = out + i * width;
    team.ForEach(width, [&](int64_t k) { to[k] = from[k] + (bias ? bias[k] : 0.0f); });
  }
};

// Links the positions with the same index to lists. Element i: next[i] is the next position with
// its index, or -1 if there is none.
struct LinkEqualRows {
  int64_t count;  // of positions
  RowIndices indices;
  int32_t* next;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t own = indices.At(i);
    int64_t other = i + 1;
    while (other < count && indices.At(other) != own) ++other;
    next[i] = other < count ? static_cast<int32_t>(other) : -1;
  }
};

// Element i: first[i] is 1 if no earlier position has the index of position i, else 0.
struct MarkFirstRows {
  RowIndices indices;
  int32_t* first;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t own = indices.At(i);
    int64_t other = i - 1;
    while (other >= 0 && indices.At(other) != own) --other;
    first[i] = other < 0;
  }
};

// Row i of the kernel: if position i is the first of its index, adds the diffs of all positions
// with this index, in their order, to table_diff[index[i]].
struct AddGatheredRows {
  RowIndices indices;
  int64_t width;
  const int32_t* next;
  const int32_t* first;
  const float* diff;
  float* table_diff;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t i) const {
    if (!first[i]) return;  // the same on all threads of the team
    float* to = table_diff + indices.At(i) * width;
    team.ForEach(width, [&](int64_t k) {
      float sum = to[k];
      for (int64_t at = i; at >= 0; at = next[at]) sum += diff[at * width + k];
      to[k] = sum;
    });
  }
};

// One row: *invalid = the number of indices outside of the table.
struct CountInvalidRows {
  int64_t count;
  RowIndices indices;
  float* invalid;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t) const {
    const double sum = team.Sum(count, [&](int64_t i) { return indices.Valid(i) ? 0.0 : 1.0; });
    team.Once([&] { *invalid = static_cast<float>(sum); });
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SHAPE_ROW_INDEX_KERNELS_H_
