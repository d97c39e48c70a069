// Hogwild: all solvers of a process, or of several processes on one machine, update one weight
// array in place after each iteration, without waiting for each other (Recht, Re, Wright, Niu:
// "Hogwild!", NIPS 2011). Segments exchange the same array with other machines.
#ifndef MILLRACE_STRATEGY_HOGWILD_H_
#define MILLRACE_STRATEGY_HOGWILD_H_

#include <functional>

#include "solver/strategy.h"
#include "strategy/delay_compensation.h"
#include "weights/weight_buffer.h"

namespace millrace::inline strategy {

class HogwildStrategy : public Strategy {
 public:
  // Registers a solver in the iteration clock of `weights`, which outlive this object. `peers`:
  // StrategyContext::peers_look_ahead. `lambda`: of delay compensation (delay_compensation.h), 0
  // for none; then `passes` is the solver's iter_size. The weights that an iteration has read are
  // those at its start, although its layers may already see newer ones. Throws Error if the clock
  // has no room for another solver.
  explicit HogwildStrategy(WeightBuffer* weights, std::function<float()> peers = nullptr,
                           float lambda = 0, int passes = 1);
  ~HogwildStrategy() override;

  float* weights() override { return weights_.data(); }
  void Prepare(UpdateRule* rule) override { rule->LockWith(&holder_); }
  UpdateLock* lock() override { return &holder_; }
  std::optional<int64_t> Claim(int64_t limit) override;
  void Update(float rate, const float* gradients, UpdateRule* rule) override;
  void Complete() override { clock_.Done(slot_); }

 private:
  WeightBuffer& weights_;
  IterationClock& clock_;
  const std::function<float()> peers_;
  UpdateLock holder_;
  const int slot_;
  DelayCompensation compensation_;
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_HOGWILD_H_
