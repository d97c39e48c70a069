#include "nn/layers/norm/average_statistics.h"

#include <algorithm>

#include "device/kernel.h"

namespace millrace::inline nn {

void AverageStatistics(Queue& queue, UpdateLock* lock, float kept,
                       const std::vector<AverageInto::Array>& arrays) {
  if (queue.device().type() != DeviceType::kCpu) {
    AverageInto all{kept, {}};
    std::copy(arrays.begin(), arrays.end(), all.arrays);
    int64_t count = 0;
    for (const AverageInto::Array& each : arrays) count += each.count;
    return Launch(queue, count, all);
  }
  for (const AverageInto::Array& each : arrays) {
    ForLockedBlocks(lock, each.statistics, 0, each.count, [&](int64_t begin, int64_t count) {
      const float* const values = each.values ? each.values + begin : nullptr;
      Launch(queue, count,
             AverageInto{kept, {{count, values, each.value, each.statistics + begin}}});
    });
  }
}

}  // namespace millrace::inline nn
