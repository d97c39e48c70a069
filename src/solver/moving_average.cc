#include "solver/moving_average.h"

#include <glog/logging.h>

#include <algorithm>

namespace millrace::inline solver {

MovingAverage::MovingAverage(int size) {
  CHECK_GE(size, 1);
  losses_.resize(size);
}

void MovingAverage::Add(float loss) { losses_[added_++ % losses_.size()] = loss; }

float MovingAverage::Mean() const {
  const int64_t held = std::min<int64_t>(added_, losses_.size());
  if (held == 0) return 0;
  double sum = 0;
  for (int64_t i = 0; i < held; ++i) sum += losses_[i];
  return static_cast<float>(sum / static_cast<double>(held));
}

}  // namespace millrace::inline solver
