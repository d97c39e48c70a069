#include "strategy/allreduce.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/part_values.h"
#include "strategy/device_allreduce.h"
#include "strategy/strategy_plans.h"

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
  if (leads_process()) rule->Apply(rate, 0, gradients, weights());
}

void AllreduceStrategy::Complete() {
  TeamStrategy::Complete();
  team().gradients().WaitForThreads();
}

// strategy { type: "allreduce" }: synchronous training (docs/learning.md).
namespace {

void CheckRun(const StrategyContext& context) {
  const auto refuse = [](const char* what) {
    throw FieldError("strategy.type", "is allreduce, which trains in this process, and in others ",
                     "that mpirun or srun starts, expected no ", what);
  };
  if (context.in_cluster) refuse("topology");
  if (context.weights_are_shared) refuse("weights that processes share (--shm)");
}

// The replicas of all solvers on GPUs; none if all compute on CPUs. Throws FieldError for a
// mixture.
std::vector<DeviceWeights*> ReplicasOf(const StrategyContext& context) {
  std::vector<DeviceWeights*> replicas;
  for (int i = 0; i < context.solvers; ++i) {
    if (DeviceWeights* const replica = context.ReplicaOf(i)) replicas.push_back(replica);
  }
  if (replicas.empty()) return replicas;
  if (static_cast<int>(replicas.size()) < context.solvers) {
    throw FieldError("strategy.type",
                     "is allreduce, whose solvers step together, expected GPUs or "
                     "CPUs, not ",
                     replicas.size(), " solvers on GPUs and ", context.solvers - replicas.size(),
                     " on CPUs");
  }
  return replicas;
}

using Rule = SynchronousMergeConfig::Rule;

struct AllreduceRule {
  PartDescriptor part;
  Rule rule;
};

const PartRegistry<AllreduceRule>& AllreduceRules() {
  static const PartRegistry<AllreduceRule> rules(
      "merge rule of the strategy allreduce",
      {{{.name = "additive"}, Rule::kAdditive},
       {{.name = "average"}, Rule::kAverage},
       {{.name = "easgd",
         .parameters = {{.name = "pull", .least = 1e-6, .most = 1, .required = true}}},
        Rule::kElastic},
       {{.name = "outer",
         .parameters =
             {{.name = "rate", .default_value = 0.7, .least = 1e-6, .most = 10},
              {.name = "momentum", .default_value = 0.9, .least = 0, .most = 0.999},
              {.name = "nesterov", .default_value = 1, .least = 0, .most = 1, .whole = true}}},
        Rule::kOuter}});
  return rules;
}

// Throws FieldError.
SynchronousMergeConfig MergeConfigOf(const caffe::PartParameter& rule, int64_t every) {
  const auto [entry, values] =
      AllreduceRules().Choose("strategy.merge_rule", rule.type(), ValuesOf(rule.param()));
  SynchronousMergeConfig config;
  config.every = every;
  config.rule = entry.rule;
  if (config.rule == Rule::kElastic) config.pull = static_cast<float>(values.at("pull"));
  if (config.rule == Rule::kOuter) {
    config.rate = static_cast<float>(values.at("rate"));
    config.momentum = static_cast<float>(values.at("momentum"));
    config.nesterov = values.at("nesterov") != 0;
  }
  return config;
}

}  // namespace

AllreducePlan::AllreducePlan(const caffe::SolverParameter& param, const PartValues& values)
    : averages(values.at("average") != 0),
      bucket(static_cast<int64_t>(values.at("bucket_kib")) * 1024 /
             static_cast<int64_t>(sizeof(float))) {
  const caffe::StrategyParameter& strategy = param.strategy();
  const auto every = static_cast<int64_t>(values.at("every"));
  if (strategy.sync_condition_size() > 0) {
    throw FieldError("strategy.sync_condition",
                     "solvers of the strategy allreduce merge after the same iterations, expected "
                     "strategy.param every");
  }
  synchronous = SynchronousSettings{.merges_weights = strategy.has_merge_rule(),
                                    .divides_batch = values.at("divide_batch") != 0,
                                    .peer_timeout = values.at("peer_timeout")};
  if (!strategy.has_merge_rule()) {
    if (every == 1) return;
    throw FieldError("strategy.merge_rule", "is missing, expected one, since solvers merge every ",
                     every, " iterations");
  }
  merge = MergeConfigOf(strategy.merge_rule(), every);
  if (!averages) {
    throw FieldError("strategy.param", "average is for gradients, expected none with a merge rule");
  }
  if (param.snapshot() % every != 0) {
    throw FieldError("snapshot", "is ", param.snapshot(), ", expected a multiple of the ", every,
                     " iterations between merges (strategy.param every)");
  }
  if (merge->rule != Rule::kOuter && merge->rule != Rule::kElastic) return;
  rule_with_state = "allreduce " + strategy.merge_rule().type();
}

std::optional<SynchronousMergeConfig> AllreducePlan::MergeOf(int solvers) const {
  if (merge && merge->pull * static_cast<float>(solvers) > 1) {
    throw FieldError("strategy.merge_rule.param", "pull is ", merge->pull,
                     ", expected at most 1 / number of solvers, ", 1.0 / solvers);
  }
  return merge;
}

StrategyMaker AllreducePlan::Make(const StrategyContext& context) const {
  CheckRun(context);
  AllreduceSettings settings;
  settings.average = averages;
  settings.bucket = bucket;
  settings.stopped = context.stopped;
  const auto team = std::make_shared<AllreduceTeam>(context.weights, context.solvers,
                                                    context.processes, std::move(settings));
  const auto merge = MergeOf(team->gradients().member(0).size());
  const auto restore = [state = context.state, is_own = context.state_is_own](int index,
                                                                              auto* strategy) {
    if (state.run == nullptr) return;
    const StateReader own = state.OfSolver(index);
    strategy->RestoreState(state.OfSolver(0), is_own ? &own : nullptr);
  };
  std::shared_ptr<DeviceTeam> gpus;
  if (const auto replicas = ReplicasOf(context); !replicas.empty()) {
    gpus = std::make_shared<DeviceTeam>(team, replicas, context.processes);
  }
  return [team, gpus, merge, restore](int index) -> std::unique_ptr<Strategy> {
    try {
      if (!merge && gpus) return std::make_unique<DeviceAllreduceStrategy>(gpus.get(), index);
      if (!merge) return std::make_unique<AllreduceStrategy>(team.get(), index);
      if (gpus) {
        auto strategy = std::make_unique<DeviceMergeStrategy>(gpus.get(), index, *merge);
        restore(index, strategy.get());
        return strategy;
      }
      auto strategy = std::make_unique<SynchronousMergeStrategy>(team.get(), index, *merge);
      restore(index, strategy.get());
      return strategy;
    } catch (const std::exception&) {
      team->Fail(std::current_exception());
      throw;
    }
  };
}

namespace {

const RegisterStrategy allreduce(
    {{.name = "allreduce",
      .parameters =
          {{.name = "average", .default_value = 1, .least = 0, .most = 1, .whole = true},
           {.name = "bucket_kib",
            .default_value = 4096,
            .least = 1,
            .most = 1 << 20,
            .whole = true},
           {.name = "divide_batch", .default_value = 0, .least = 0, .most = 1, .whole = true},
           {.name = "every", .default_value = 1, .least = 1, .most = 1e9, .whole = true},
           // Seconds of silence after which a process of mpirun or srun counts as lost.
           {.name = "peer_timeout", .default_value = 60, .least = 1, .most = 1e6}}},
     MakePlan<AllreducePlan>});

}  // namespace
}  // namespace millrace::inline strategy
