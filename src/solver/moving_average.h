// The smoothed loss that a run displays: the mean over the last `average_loss`
// iterations, or over as many as there have been.
#ifndef MILLRACE_SOLVER_MOVING_AVERAGE_H_
#define MILLRACE_SOLVER_MOVING_AVERAGE_H_

#include <cstdint>
#include <vector>

namespace millrace {

// Not thread-safe.
class MovingAverage {
 public:
  // `size` >= 1 iterations (SolverParameter.average_loss).
  explicit MovingAverage(int size);

  void Add(float loss);
  // The mean of what the window holds; 0 while it is empty. Summed anew on each
  // call: rounding does not pile up over a run, and a loss that was not finite
  // is forgotten once it leaves the window.
  float Mean() const;

 private:
  std::vector<float> losses_;
  int64_t added_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SOLVER_MOVING_AVERAGE_H_
