// Learning-rate schedules, as pure functions of the global iteration: solvers
// claim iterations out of one clock in any order, so a schedule keeps no state.
#ifndef MILLRACE_SOLVER_LR_POLICY_H_
#define MILLRACE_SOLVER_LR_POLICY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace caffe {
class SolverParameter;
}

namespace millrace {

// Caffe's policies, with b = base_lr and i = the iteration:
//   fixed      b
//   step       b * gamma ^ floor(i / stepsize)
//   exp        b * gamma ^ i
//   inv        b * (1 + gamma * i) ^ -power
//   multistep  b * gamma ^ (how many of the stepvalues are <= i)
//   poly       b * (1 - i / max_iter) ^ power; 0 from max_iter on
//   sigmoid    b / (1 + exp(-gamma * (i - stepsize)))
// Immutable; safe to use from any thread.
class LrPolicy {
 public:
  // Throws FieldError when the policy is unknown, or when a field that it needs
  // is missing or out of range.
  explicit LrPolicy(const caffe::SolverParameter& param);

  // The rate at `iteration` >= 0.
  float Rate(int64_t iteration) const;
  // How many steps down the rate has taken by then (step, multistep), else 0:
  // what a solverstate calls current_step.
  int32_t Step(int64_t iteration) const;
  // The line to log when a multistep schedule steps at `iteration`, else "".
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
