#include "strategy/allreduce.h"

#include <array>
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

TeamStrategy::TeamStrategy(AllreduceTeam* team, int index)
    : team_(*team),
      index_(index),
      member_(team->gradients().member(index)),
      statistics_(team->statistics().member(index)),
      next_(team->start()) {
  if (leads_process()) slot_ = team_.weights().clock().RegisterSolver();
}

TeamStrategy::~TeamStrategy() {
  if (slot_) team_.weights().clock().ReleaseSolver(*slot_);
}

std::optional<int64_t> TeamStrategy::Claim(int64_t limit) {
  limit_ = limit;
  if (stops_ || next_ >= limit) return std::nullopt;
  if (slot_) team_.weights().clock().Claim(limit);
  return next_++;
}

void TeamStrategy::Complete() {
  if (slot_) team_.weights().clock().Done(*slot_);
}

void TeamStrategy::WaitForSums() {
  const bool stopped = team_.settings().stopped && team_.settings().stopped();
  std::array<float, 2> status{loss_, stopped ? 1.0f : 0.0f};
  member_.StartSum(status);
  member_.Wait();
  loss_ = status[0] / static_cast<float>(solvers());
  stops_ = status[1] > 0;
}

AllreduceStrategy::AllreduceStrategy(AllreduceTeam* team, int index)
    : TeamStrategy(team, index), buckets_(team->weights().size(), team->settings().bucket) {}

std::optional<int64_t> AllreduceStrategy::Claim(int64_t limit) {
  buckets_.Restart();
  return TeamStrategy::Claim(limit);
}

void AllreduceStrategy::OnGradients(float* gradients, int64_t begin) {
  const float share = team().settings().average ? 1 / static_cast<float>(solvers()) : 1;
  buckets_.Complete(begin, [&](int64_t first, int64_t count) {
    float* const bucket = gradients + first;
    if (share != 1) {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) bucket[i] *= share;
    }
    // The solver that leads updates the weights of the process.
    member().StartSum({bucket, static_cast<size_t>(count)}, leads_process());
  });
  member().Poll();
}

void AllreduceStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  WaitForSums();
  if (leads_process()) rule->Apply(rate, false, gradients, weights());
}

void AllreduceStrategy::Complete() {
  TeamStrategy::Complete();
  team().gradients().WaitForThreads();
}

}  // namespace millrace::inline strategy
