// Learning-rate schedules as pure functions of the global iteration, and of the steps that a
// resumed snapshot had taken. Solvers take iterations from one clock in any order, so a schedule
// has no state. SSD's "plateau", which depends on the losses of earlier iterations, is refused.
#ifndef MILLRACE_SOLVER_LR_POLICY_H_
#define MILLRACE_SOLVER_LR_POLICY_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "solver/rate_scale.h"

namespace millrace::caffe {
class SolverParameter;
}

namespace millrace::inline solver {

// Caffe's policies, with b = base_lr and i = the iteration:
//   fixed      b
//   step       b * gamma ^ floor(i / stepsize)
//   exp        b * gamma ^ i
//   inv        b * (1 + gamma * i) ^ -power
//   multistep  b * gamma ^ (number of stepvalues that are <= i)
//   poly       b * (1 - i / max_iter) ^ power; 0 from max_iter on
//   sigmoid    b / (1 + exp(-gamma * (i - stepsize)))
// and of forks
//   multifixed the stagelr of the first stage whose stageiter is >= i, that of the last stage after
//              all of them
// Before iteration warmup_iter (Intel's fork), the rate is on the line from warmup_start_lr at
// iteration 0 to b at warmup_iter, whatever the policy.
// Fields that are not given are 0, as in Caffe. Of stepvalues that do not increase, each counts
// from the iteration after that of the one before it. Thread-safe once it is set up.
class LrPolicy {
 public:
  // Throws FieldError for what stops Caffe: an unknown policy, gamma < 0, stepsize <= 0, stages
  // without an end.
  explicit LrPolicy(const caffe::SolverParameter& param);
  // Continues from a snapshot of `iteration` that had taken `steps` steps. As in Caffe, a multistep
  // schedule goes on with its stepvalue of that index, whatever the earlier ones are.
  void Resume(int64_t iteration, int32_t steps);

  // Multiplies all rates by a factor that may change, of `scale`, which outlives this object.
  void ScaleBy(const RateScale* scale) { scale_ = scale; }

  // While `rate` is above 0, it replaces the rate of the schedule; it is multiplied as that is.
  // Outlives this object.
  void ReplaceBy(const std::atomic<float>* rate) { replacement_ = rate; }

  // The rate at `iteration` >= 0.
  float Rate(int64_t iteration) const {
    const float replacement =
        replacement_ != nullptr ? replacement_->load(std::memory_order_relaxed) : 0;
    const float rate = replacement > 0 ? replacement : RateOfFile(iteration);
    return scale_ != nullptr ? rate * scale_->Factor(iteration) : rate;
  }
  // The number of steps that the schedule has taken by then (step, multistep), else 0.
  int32_t Step(int64_t iteration) const;
  // current_step in a solverstate of `completed` iterations: Caffe steps as an iteration begins, so
  // that of the last one.
  int32_t StepOfState(int64_t completed) const { return completed > 0 ? Step(completed - 1) : 0; }
  // The line to log if a multistep schedule steps at `iteration`, else "".
  std::string Notice(int64_t iteration) const;

 private:
  enum class Kind { kFixed, kStep, kExp, kInv, kMultistep, kPoly, kSigmoid, kMultifixed };

  void CheckStages() const;
  float RateOfFile(int64_t iteration) const;

  Kind kind_;
  double base_lr_, gamma_, power_;
  int64_t stepsize_, max_iter_, warmup_iter_;
  double warmup_start_lr_;
  std::vector<float> stage_rates_;  // of multifixed
  std::vector<int64_t> stage_ends_;
  std::vector<int64_t> stepvalues_;
  int32_t steps_before_ = 0;    // of multistep: taken before a resume
  std::vector<int64_t> steps_;  // of multistep: iterations of the others, strictly increasing
  const RateScale* scale_ = nullptr;
  const std::atomic<float>* replacement_ = nullptr;
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_LR_POLICY_H_
