#include "simulate/simulated_strategy.h"

#include <algorithm>
#include <utility>

#include "nn/net.h"
#include "strategy/delay_compensation.h"

namespace millrace::inline simulate {
namespace {

std::optional<int64_t> ClaimOf(SharedSchedule* schedule, int64_t limit) {
  if (schedule->claimed >= std::min(limit, schedule->limit)) return std::nullopt;
  return schedule->claimed++;
}

}  // namespace

WorkerWeights WeightsOf(const BuiltNet& net, std::vector<float>* weights) {
  WorkerWeights of{weights->data(), static_cast<int64_t>(weights->size())};
  for (const NetParam& param : net.params()) {
    if (param.owner->wanted) continue;
    const ParamEntry& entry = net.layout().entries()[param.entry];
    of.own_arrays.push_back({entry.offset, entry.count});
  }
  return of;
}

DeferredStrategy::DeferredStrategy(WorkerWeights weights, SharedSchedule* schedule,
                                   float look_ahead, float lambda, int passes)
    : weights_(std::move(weights)),
      schedule_(*schedule),
      look_ahead_(look_ahead),
      lambda_(lambda),
      passes_(passes),
      read_(weights_.size) {}

std::optional<int64_t> DeferredStrategy::Claim(int64_t limit) { return ClaimOf(&schedule_, limit); }

void DeferredStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  rate_ = rate;
  rule_ = rule;
  gradients_.assign(gradients, gradients + read_.size());
}

void DeferredStrategy::Begin() {
  std::copy_n(weights_.data, weights_.size, read_.data());
  own_before_.clear();
  for (const WorkerWeights::OwnArray& own : weights_.own_arrays) {
    own_before_.insert(own_before_.end(), weights_.data + own.offset,
                       weights_.data + own.offset + own.count);
  }
}

void DeferredStrategy::End(const MergeTime& /*now*/) {
  // What layers have written themselves, they have written to the copy.
  const float* before = own_before_.data();
  for (const WorkerWeights::OwnArray& own : weights_.own_arrays) {
    for (int64_t i = own.offset; i < own.offset + own.count; ++i) {
      weights_.data[i] += read_[i] - *before++;
    }
  }
  const float* gradients = gradients_.data();
  if (lambda_ > 0) {
    HogwildUpdateCompensate(lambda_, passes_, weights_.size, gradients, weights_.data,
                            read_.data());
    gradients = read_.data();
  }
  rule_->Apply(rate_, look_ahead_, gradients, weights_.data);
}

SimulatedLocal::SimulatedLocal(const WorkerWeights& weights, SharedSchedule* schedule,
                               MergerConfig config, float look_ahead)
    : schedule_(*schedule),
      look_ahead_(look_ahead),
      merger_(weights.data, weights.size, std::move(config),
              [size = weights.size](const auto& work) { work(0, size); }),
      gradients_(weights.size) {}

std::optional<int64_t> SimulatedLocal::Claim(int64_t limit) { return ClaimOf(&schedule_, limit); }

void SimulatedLocal::Update(float rate, const float* gradients, UpdateRule* rule) {
  rate_ = rate;
  rule_ = rule;
  std::copy_n(gradients, gradients_.size(), gradients_.data());
}

void SimulatedLocal::End(const MergeTime& now) {
  rule_->Apply(rate_, merger_.is_additive() ? look_ahead_ : 0, gradients_.data(), weights());
  merger_.Complete(now);
}

SimulatedSynchronous::SimulatedSynchronous(WorkerWeights weights, int index, int workers)
    : DeferredStrategy(std::move(weights), &own_, 0), index_(index), workers_(workers), alone_(1) {}

}  // namespace millrace::inline simulate
