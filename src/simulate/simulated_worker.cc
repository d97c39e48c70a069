#include "simulate/simulated_worker.h"

#include <algorithm>
#include <utility>

namespace millrace::inline simulate {

std::optional<int64_t> DeferredStrategy::Claim(int64_t limit) {
  if (schedule_.claimed >= limit) return std::nullopt;
  return schedule_.claimed++;
}

void DeferredStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  rate_ = rate;
  rule_ = rule;
  gradients_.assign(gradients, gradients + read_.size());
}

void DeferredStrategy::Apply(float* weights) {
  rule_->Apply(rate_, together_, gradients_.data(), weights);
}

SimulatedWorker::SimulatedWorker(const SolverConfig& config, const LrPolicy& policy,
                                 const WorkerConfig& worker, SharedSchedule* schedule)
    : data_(DataOptions{.seed = config.seed,
                        .shard_index = worker.index,
                        .shard_count = static_cast<uint64_t>(worker.workers),
                        .sampler = config.param.sampler()}),
      made_(std::make_unique<BuiltNet>(config.train.param, config.train.source,
                                       TrainNetOptions(config, &data_))),
      weights_(made_->layout().size()),
      base_(weights_.size()),
      pending_(weights_.size()),
      strategy_(static_cast<int64_t>(weights_.size()), schedule, worker.workers > 1),
      solver_(config, policy, &data_, &strategy_, std::move(made_)) {
  const auto size = static_cast<int64_t>(weights_.size());
  for (const NetParam& param : net().params()) {
    if (param.owner->wanted) continue;
    const ParamEntry& entry = net().layout().entries()[param.entry];
    own_arrays_.push_back({entry.offset, entry.count});
  }
  rule_state_.resize(MergeRuleRegistry::Get().Check(worker.rule).state_floats * weights_.size());
  executor_ = ExecutorRegistry::Get().Make(
      HostDevice(),
      {weights_.data(), base_.data(), pending_.data(),
       rule_state_.empty() ? nullptr : rule_state_.data(), size, worker.chunk_floats},
      worker.exchange.codec, worker.rule);
  exchange_ = std::make_unique<Exchange>(worker.exchange, executor_.get());
}

void SimulatedWorker::FillWeights() {
  net().FillWeights();
  weights_.assign(strategy_.weights(), strategy_.weights() + weights_.size());
}

std::optional<int64_t> SimulatedWorker::Begin() {
  const std::optional<int64_t> iteration = solver_.Claim();
  if (!iteration) return std::nullopt;
  std::copy(weights_.begin(), weights_.end(), strategy_.weights());
  own_before_.clear();
  for (const OwnArray& own : own_arrays_) {
    const auto begin = weights_.begin() + own.offset;
    own_before_.insert(own_before_.end(), begin, begin + own.count);
  }
  return iteration;
}

void SimulatedWorker::End() {
  strategy_.Apply(weights_.data());
  // What layers have written themselves, they have written to the copy.
  const float* before = own_before_.data();
  for (const OwnArray& own : own_arrays_) {
    for (int64_t i = own.offset; i < own.offset + own.count; ++i) {
      weights_[i] += strategy_.weights()[i] - *before++;
    }
  }
  exchange_->SetProgress(++iterations_);
}

}  // namespace millrace::inline simulate
