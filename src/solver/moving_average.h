// The smoothed loss that a run displays: the mean over the last `average_loss` iterations, or over
// all if there are fewer.
#ifndef MILLRACE_SOLVER_MOVING_AVERAGE_H_
#define MILLRACE_SOLVER_MOVING_AVERAGE_H_

#include <cstdint>
#include <vector>

namespace millrace::inline solver {

// Not thread-safe.
class MovingAverage {
 public:
  // `size` >= 1 iterations (SolverParameter.average_loss).
  explicit MovingAverage(int size);

  void Add(float loss);
  // The mean of the window; 0 while it is empty. Each call computes the sum again, so that rounding
  // errors do not accumulate over a run and a non-finite loss has no effect after it leaves the
  // window.
  float Mean() const;

 private:
  std::vector<float> losses_;
  int64_t added_ = 0;
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_MOVING_AVERAGE_H_
