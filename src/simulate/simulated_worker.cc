#include "simulate/simulated_worker.h"

#include <algorithm>
#include <utility>

namespace millrace::inline simulate {

SimulatedWorker::SimulatedWorker(const SolverConfig& config, const LrPolicy& policy,
                                 const WorkerConfig& worker)
    : data_(DataOptions{.seed = config.seed,
                        .shard_index = worker.index,
                        .shard_count = static_cast<uint64_t>(worker.workers),
                        .sampler = config.param.sampler()}),
      made_(std::make_unique<BuiltNet>(config.train.param, config.train.source,
                                       TrainNetOptions(config, &data_))),
      weights_(made_->layout().size()),
      strategy_(worker.make_strategy(WeightsOf(*made_, &weights_))),
      solver_(config, policy, &data_, strategy_.get(), std::move(made_)) {
  if (!worker.exchange) return;
  const WorkerExchange& exchange = *worker.exchange;
  base_.resize(weights_.size());
  pending_.resize(weights_.size());
  rule_state_.resize(MergeRuleRegistry::Get().Check(exchange.rule).state_floats * weights_.size());
  executor_ =
      ExecutorRegistry::Get().Make(HostDevice(),
                                   {weights_.data(), base_.data(), pending_.data(),
                                    rule_state_.empty() ? nullptr : rule_state_.data(),
                                    static_cast<int64_t>(weights_.size()), exchange.chunk_floats},
                                   exchange.config.codec, exchange.rule);
  exchange_ = std::make_unique<Exchange>(exchange.config, executor_.get());
}

void SimulatedWorker::FillWeights() {
  net().FillWeights();
  std::copy_n(strategy_->weights(), weights_.size(), weights_.data());
}

std::optional<int64_t> SimulatedWorker::Begin() {
  const std::optional<int64_t> iteration = solver_.Claim();
  if (iteration) strategy_->Begin();
  return iteration;
}

void SimulatedWorker::End(const MergeTime& now) {
  strategy_->End(now);
  ++iterations_;
  if (exchange_) exchange_->SetProgress(iterations_);
}

}  // namespace millrace::inline simulate
