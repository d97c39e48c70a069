// A solver on a device, on a replica of its own in the device's memory (weights/device_weights.h).
// Delay compensation is that of delay_compensation.h. A link keeps the replica close to the host's
// (cluster/device_link.h).
#ifndef MILLRACE_STRATEGY_DEVICE_STRATEGY_H_
#define MILLRACE_STRATEGY_DEVICE_STRATEGY_H_

#include <functional>
#include <string>

#include "millrace/memory_space.h"
#include "solver/strategy.h"
#include "weights/device_weights.h"
#include "weights/iteration_clock.h"

namespace millrace::inline strategy {

class DeviceStrategy : public Strategy, private UpdateBehindPasses {
 public:
  // Registers a solver in `clock`, which counts the iterations of all solvers of the run. Both
  // outlive this object. `peers`, `lambda`, `passes`: as of HogwildStrategy; memory of the device:
  // one more array of weights if lambda is not 0. Throws Error if the clock has no room for another
  // solver, and OutOfMemory.
  DeviceStrategy(DeviceWeights* weights, IterationClock* clock,
                 std::function<float()> peers = nullptr, float lambda = 0, int passes = 1);
  ~DeviceStrategy() override;

  Device& device() const override { return weights_.device(); }
  float* weights() override { return weights_.data(); }
  void Prepare(UpdateRule* rule) override { queue_ = &rule->queue(); }
  std::optional<int64_t> Claim(int64_t limit) override;
  // Enqueues the update in the order of the array's changes; if others have changed it since the
  // last update, waits until the gradient is there first. Throws Error if the device has failed.
  void Update(float rate, const float* gradients, UpdateRule* rule) override;
  // For weights of which an exchange moves all at once. Its kernels then run between two updates;
  // with larger arrays they would stand still most of the time.
  UpdateBehindPasses* behind_passes(std::string* why) override;
  void Write(Queue* queue, const std::function<void()>& write) override {
    weights_.order().Write(*queue, write);
  }
  void Complete() override;
  // Waits for the net's queue if it uses an array of this object.
  void Flush() override;

 private:
  WriteOrder& order() override { return weights_.order(); }
  float look_ahead() const override;
  const float* Corrected(const float* gradients) override;

  DeviceWeights& weights_;
  IterationClock& clock_;
  const std::function<float()> peers_;
  const float strength_;  // of delay compensation
  const Buffer read_;     // the weights at the start of the iteration; empty without
  Queue* queue_ = nullptr;
  const int slot_;
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_DEVICE_STRATEGY_H_
