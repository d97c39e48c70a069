#include "nn/layers/index_check.h"

#include <vector>

#include "base/error.h"
#include "device/kernel.h"
#include "nn/layers/row_index_kernels.h"

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

}  // namespace millrace::inline nn
