// Kernels (device/kernel.h) of SGD. The formulas are those of SgdStep.
#ifndef MILLRACE_SOLVER_SGD_KERNELS_H_
#define MILLRACE_SOLVER_SGD_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "solver/sgd_step.h"

namespace millrace::inline solver {

// An element is a weight.
struct SgdUpdate {
  SgdStep step;
  bool l1;
  const float* gradients;
  float* history;
  float* weights;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(gradients), visit(history), visit(weights);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float w = weights[i], h = history[i];
    const float sign = w > 0 ? 1.0f : (w < 0 ? -1.0f : 0.0f);
    const float pull = l1 ? sign : w;
    const float next =
        step.momentum * h + step.rate * (step.scale * gradients[i] + step.decay * pull);
    weights[i] = w - (next + step.ahead * (next - h));
    history[i] = next;
  }
};

// A row is a part of the array; parts[row] receives the sum of its squares.
struct SquaresOfParts {
  int64_t count, part;  // values in all, and in each part but the last
  const float* values;
  double* parts;

  static int64_t rows(int64_t count, int64_t part) { return (count + part - 1) / part; }

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(values), visit(parts);
  }
  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const int64_t begin = row * part;
    const int64_t here = count - begin < part ? count - begin : part;
    const double sum = team.Sum(here, [&](int64_t i) {
      const double value = values[begin + i];
      return value * value;
    });
    team.Once([&] { parts[row] = sum; });
  }
};

// A kernel of one row: *total = the sum of `parts`.
struct SumOfParts {
  int64_t count;
  const double* parts;
  double* total;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(parts), visit(total);
  }
  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t /*row*/) const {
    const double sum = team.Sum(count, [&](int64_t i) { return parts[i]; });
    team.Once([&] { *total = sum; });
  }
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_SGD_KERNELS_H_
