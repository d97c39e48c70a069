// Kernels (device/kernel.h) over all parameters of a net at once: a table divides the flat arrays
// into rows, each of one parameter. A GPU needs one launch for them, however many parameters a net
// has.
#ifndef MILLRACE_SOLVER_PARAM_ROWS_H_
#define MILLRACE_SOLVER_PARAM_ROWS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/kernel.h"
#include "solver/sgd_kernels.h"

namespace millrace::inline solver {

// Elements [begin, begin + count) of the flat arrays, of one parameter.
struct ParamRow {
  int64_t begin, count;
  float lr_mult, decay_mult;
};

// Gives a kernel the coefficients that differ between parameters.
MILLRACE_HOST_DEVICE void SetCoefficients(float rate, float decay, bool /*l1*/, SgdUpdate* kernel) {
  kernel->step.rate = rate;
  kernel->step.decay = decay;
}
template <typename Kernel>
MILLRACE_HOST_DEVICE void SetCoefficients(float rate, float decay, bool l1, Kernel* kernel) {
  kernel->rate = rate;
  (l1 ? kernel->gradient.l1 : kernel->gradient.l2) = decay;
}

// Runs an update's kernel, whose pointers are to the flat arrays, for the elements of all rows.
template <typename Kernel>
struct UpdateOfRows {
  Kernel kernel;
  float rate, decay;  // of the solver: those of a parameter are times its lr_mult and decay_mult
  bool l1;
  const ParamRow* rows;

  template <typename Visit>
  void Pointers(Visit visit) {
    VisitPointers(kernel, visit), visit(rows);
  }
  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const ParamRow at = rows[row];
    Kernel own = kernel;
    SetCoefficients(rate * at.lr_mult, decay * at.decay_mult, l1, &own);
    const int64_t packs = HasAlignedElements(own, at.begin) ? at.count / kPack : 0;
    team.ForEach(packs, [&](int64_t i) { RunPack(own, at.begin + kPack * i); });
    const int64_t rest = at.begin + kPack * packs;
    team.ForEach(at.count - kPack * packs, [&](int64_t i) { own(rest + i); });
  }
};

// sums[row] receives the sum of squares of the row's values.
struct SquaresOfRows {
  const ParamRow* rows;
  const float* values;
  double* sums;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(rows), visit(values), visit(sums);
  }
  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const ParamRow at = rows[row];
    const double sum = team.Sum(at.count, [&](int64_t i) {
      const double value = values[at.begin + i];
      return value * value;
    });
    team.Once([&] { sums[row] = sum; });
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

#endif  // MILLRACE_SOLVER_PARAM_ROWS_H_
