#include "strategy/device_strategy.h"

#include <functional>
#include <utility>

#include "device/kernel.h"
#include "solver/look_ahead.h"
#include "strategy/delay_compensation.h"

namespace millrace::inline strategy {
namespace {

// What the frames that a link to the host (cluster/device_link.h) has under way can hold.
constexpr int64_t kMaxWeightsBehindPasses = int64_t{256} * 8192;

}  // namespace

DeviceStrategy::DeviceStrategy(DeviceWeights* weights, IterationClock* clock,
                               std::function<float()> peers, float lambda, int passes)
    : weights_(*weights),
      clock_(*clock),
      peers_(std::move(peers)),
      strength_(lambda / static_cast<float>(passes)),
      read_(lambda > 0 ? Buffer(weights->device().memory(), weights->size() * sizeof(float))
                       : Buffer()),
      slot_(clock_.RegisterSolver()) {}

DeviceStrategy::~DeviceStrategy() { clock_.ReleaseSolver(slot_); }

std::optional<int64_t> DeviceStrategy::Claim(int64_t limit) {
  const std::optional<int64_t> iteration = clock_.Claim(limit);
  if (iteration && read_.bytes() > 0) queue_->Copy(read_.get(), weights_.data(), read_.bytes());
  return iteration;
}

void DeviceStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  // The link's kernels run behind an update that has been enqueued before them. Without this wait,
  // they would stand still for the whole backward pass that the update itself waits for. While no
  // link changes the weights, the update and the next pass are enqueued at once.
  if (weights_.order().IsChangedByOthers(rule->queue())) rule->queue().Synchronize();
  weights_.order().Write(rule->queue(), [&] {
    rule->Apply(rate, look_ahead(), Corrected(gradients), weights_.data());
  });
}

UpdateBehindPasses* DeviceStrategy::behind_passes(std::string* why) {
  if (weights_.size() <= kMaxWeightsBehindPasses) return this;
  *why = StrCat("exchanges would wait for whole passes: there are more than ",
                kMaxWeightsBehindPasses, " weights");
  return nullptr;
}

float DeviceStrategy::look_ahead() const { return LookAheadOf(clock_, peers_); }

const float* DeviceStrategy::Corrected(const float* gradients) {
  if (read_.bytes() == 0) return gradients;
  device::Launch(*queue_, weights_.size(),
                 Compensate{strength_, gradients, weights_.data(), read_.get<float>()});
  return read_.get<float>();
}

// The update has been enqueued, so that the kernels which a segment enqueues from now on see it.
void DeviceStrategy::Complete() {
  weights_.CountIteration();
  clock_.Done(slot_);
}

void DeviceStrategy::Flush() {
  if (queue_ != nullptr && read_.bytes() > 0) queue_->Synchronize();
}

}  // namespace millrace::inline strategy
