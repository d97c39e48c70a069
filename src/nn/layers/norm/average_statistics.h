// How layers that keep averages among their parameters take in those of an iteration.
#ifndef MILLRACE_NN_LAYERS_NORM_AVERAGE_STATISTICS_H_
#define MILLRACE_NN_LAYERS_NORM_AVERAGE_STATISTICS_H_

#include <vector>

#include "base/threads/range_lock.h"
#include "nn/layers/norm/normalize_kernels.h"

namespace millrace::inline nn {

// Enqueues statistic = kept * statistic + value for all elements of at most AverageInto::kMaxArrays
// arrays of parameters. On the host in blocks under `lock`, which may be null. On other devices in
// one launch: the order of the arrays' changes takes the place of the lock (Strategy::Write).
void AverageStatistics(Queue& queue, UpdateLock* lock, float kept,
                       const std::vector<AverageInto::Array>& arrays);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_NORM_AVERAGE_STATISTICS_H_
