#include "simulate/simulated_worker.h"

#include <algorithm>
#include <utility>

namespace millrace::inline simulate {

namespace {

std::unique_ptr<BuiltNet> MakeNet(const SolverConfig& config, const WorkerConfig& worker,
                                  DataService* data) {
  if (!worker.streams.empty()) data->Restore("train", worker.streams);
  return std::make_unique<BuiltNet>(config.train.param, config.train.source,
                                    TrainNetOptions(config, data));
}

}  // namespace

SimulatedWorker::SimulatedWorker(const SolverConfig& config, const LrPolicy& policy,
                                 const WorkerConfig& worker)
    : index_(worker.index),
      setup_(worker.exchange),
      data_(DataOptions{.seed = config.seed,
                        .shard_index = worker.index,
                        .shard_count = static_cast<uint64_t>(worker.workers),
                        .sampler = config.param.sampler()}),
      made_(MakeNet(config, worker, &data_)),
      weights_(made_->layout().size()),
      strategy_(worker.make_strategy(WeightsOf(*made_, &weights_))),
      rate_scale_(RateScale::WarmupOf(config.param.max_iter())),
      policy_(policy),
      solver_(config, policy_, &data_, strategy_.get(), std::move(made_)) {
  policy_.ScaleBy(&rate_scale_);
  RestartExchange();
}

void SimulatedWorker::RestartExchange() {
  if (!setup_) return;
  exchange_.reset();
  executor_.reset();
  iterations_ = 0;
  base_.assign(weights_.size(), 0.0f);
  pending_.assign(weights_.size(), 0.0f);
  rule_state_.assign(MergeRuleRegistry::Get().Check(setup_->rule).state_floats * weights_.size(),
                     0.0f);
  executor_ =
      ExecutorRegistry::Get().Make(HostDevice(),
                                   {weights_.data(), base_.data(), pending_.data(),
                                    rule_state_.empty() ? nullptr : rule_state_.data(),
                                    static_cast<int64_t>(weights_.size()), setup_->chunk_floats},
                                   setup_->config.codec, setup_->rule);
  exchange_ = std::make_unique<Exchange>(setup_->config, executor_.get());
}

SolverPart SimulatedWorker::ExportPart() const {
  SolverPart part;
  for (caffe::StreamPosition& position : data_.Positions("train")) {
    *part.add_stream() = std::move(position);
  }
  strategy_->ExportState(&part);
  return part;
}

void SimulatedWorker::FillWeights() {
  net().FillWeights();
  std::copy_n(strategy_->weights(), weights_.size(), weights_.data());
}

void SimulatedWorker::LoadModel(const std::string& path) {
  CopyModel(path, &net());
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
