// Learning-rate schedules as pure functions of the global iteration. Solvers take iterations from
// one clock in any order, so a schedule has no state.
#ifndef MILLRACE_SOLVER_LR_POLICY_H_
#define MILLRACE_SOLVER_LR_POLICY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::caffe {
class SolverParameter;
}

namespace millrace {

// Caffe's policies, with b = base_lr and i = the iteration:
//   fixed      b
//   step       b * gamma ^ floor(i / stepsize)
//   exp        b * gamma ^ i
//   inv        b * (1 + gamma * i) ^ -power
//   multistep  b * gamma ^ (number of stepvalues that are <= i)
//   poly       b * (1 - i / max_iter) ^ power; 0 from max_iter on
//   sigmoid    b / (1 + exp(-gamma * (i - stepsize)))
// Immutable and thread-safe.
class LrPolicy {
 public:
  // Throws FieldError if the policy is unknown, or if a field that it needs is missing or out of
  // range.
  explicit LrPolicy(const caffe::SolverParameter& param);

  // The rate at `iteration` >= 0.
  float Rate(int64_t iteration) const;
  // The number of steps that the schedule has taken by then (step, multistep), else 0: current_step
  // in a solverstate.
  int32_t Step(int64_t iteration) const;
  // The line to log if a multistep schedule steps at `iteration`, else "".
  std::string Notice(int64_t iteration) const;

 private:
  enum class Kind { kFixed, kStep, kExp, kInv, kMultistep, kPoly, kSigmoid };

  Kind kind_;
  double base_lr_, gamma_, power_;
  int64_t stepsize_, max_iter_;
  std::vector<int32_t> stepvalues_;  // strictly increasing
};

}  // namespace millrace

#endif  // MILLRACE_SOLVER_LR_POLICY_H_
