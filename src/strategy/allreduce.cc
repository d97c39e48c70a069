#include "strategy/allreduce.h"

#include <utility>

namespace millrace::inline strategy {

AllreduceTeam::AllreduceTeam(WeightBuffer* weights, int solvers, Processes* processes,
                             AllreduceSettings settings)
    : weights_(*weights),
      settings_(std::move(settings)),
      start_(weights->clock().claimed()),
      gradients_between_(processes ? processes->NewGroup() : nullptr),
      statistics_between_(processes ? processes->NewGroup() : nullptr),
      gradients_(solvers, gradients_between_.get()),
      statistics_(solvers, statistics_between_.get()) {
  if (gradients_between_ == nullptr) return;
  const std::span<float> all(weights_.data(), static_cast<size_t>(weights_.size()));
  gradients_between_->Broadcast(std::as_writable_bytes(all));
}

void AllreduceTeam::Fail(const std::exception_ptr& error) {
  gradients_.Poison(error);
  statistics_.Poison(error);
}

AllreduceStrategy::AllreduceStrategy(AllreduceTeam* team, int index)
    : team_(*team),
      index_(index),
      member_(team->gradients().member(index)),
      statistics_(team->statistics().member(index)),
      buckets_(team->weights().size(), team->settings().bucket),
      next_(team->start()) {
  if (leads_process()) slot_ = team_.weights().clock().RegisterSolver();
}

AllreduceStrategy::~AllreduceStrategy() {
  if (slot_) team_.weights().clock().ReleaseSolver(*slot_);
}

std::optional<int64_t> AllreduceStrategy::Claim(int64_t limit) {
  if (stops_ || next_ >= limit) return std::nullopt;
  if (slot_) team_.weights().clock().Claim(limit);
  buckets_.Restart();
  return next_++;
}

void AllreduceStrategy::OnGradients(float* gradients, int64_t begin) {
  const float share = team_.settings().average ? 1 / static_cast<float>(solvers()) : 1;
  buckets_.Complete(begin, [&](int64_t first, int64_t count) {
    float* const bucket = gradients + first;
    if (share != 1) {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) bucket[i] *= share;
    }
    // The solver that leads updates the weights of the process.
    member_.StartSum({bucket, static_cast<size_t>(count)}, leads_process());
  });
  member_.Poll();
}

void AllreduceStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  status_[kStops] = team_.settings().stopped && team_.settings().stopped() ? 1 : 0;
  member_.StartSum(status_);
  member_.Wait();
  loss_ = status_[kLoss] / static_cast<float>(solvers());
  stops_ = status_[kStops] > 0;
  if (leads_process()) rule->Apply(rate, false, gradients, weights());
}

void AllreduceStrategy::Complete() {
  if (slot_) team_.weights().clock().Done(*slot_);
  team_.gradients().WaitForThreads();
}

}  // namespace millrace::inline strategy
