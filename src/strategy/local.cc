#include "strategy/local.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/threads/range_lock.h"
#include "proto/part_values.h"
#include "solver/look_ahead.h"
#include "strategy/strategy_plans.h"

namespace millrace::inline strategy {
namespace {

// Elements that are merged within about a microsecond.
constexpr int64_t kBlock = 256;

}  // namespace

LocalStrategy::LocalStrategy(WeightBuffer* shared, LocalConfig config, DeviceWeights* replica)
    : shared_(*shared),
      clock_(shared->clock()),
      solvers_(config.solvers),
      time_(*config.clock),
      peers_(std::move(config.peers)),
      replica_(replica),
      copy_(replica ? std::optional<ReplicaCopy>(replica) : std::nullopt),
      holder_(&shared->locks()),
      slot_(clock_.RegisterSolver()),
      merger_(
          shared->data(), shared->size(), std::move(config),
          [this](const auto& work) { ForShared(work); }, copy_ ? &*copy_ : nullptr) {
  merger_.Begin(Now(0));
}

LocalStrategy::~LocalStrategy() { clock_.ReleaseSolver(slot_); }

float LocalStrategy::look_ahead() const {
  return merger_.is_additive() ? LookAheadOf(clock_, peers_) : 0;
}

MergeTime LocalStrategy::Now(int completing) const {
  return {.iterations = clock_.global() + completing,
          .seconds = time_.NowSeconds(),
          .solvers = std::max(solvers_, clock_.solvers())};
}

void LocalStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  Write(&rule->queue(), [&] { rule->Apply(rate, look_ahead(), gradients, weights()); });
}

void LocalStrategy::Write(Queue* queue, const std::function<void()>& write) {
  if (replica_ == nullptr) return write();
  replica_->order().Write(*queue, write);
}

void LocalStrategy::Complete() {
  if (replica_ != nullptr) replica_->CountIteration();
  merger_.Complete(Now(1));
  clock_.SetUnmerged(slot_, merger_.unmerged());
  clock_.Done(slot_);
}

void LocalStrategy::Flush() {
  merger_.Flush(Now(0));
  clock_.SetUnmerged(slot_, 0);
}

void LocalStrategy::ForShared(const std::function<void(int64_t begin, int64_t count)>& work) {
  for (int64_t begin = 0; begin < shared_.size(); begin += kBlock) {
    const int64_t count = std::min(kBlock, shared_.size() - begin);
    ForLockedBlocks(&holder_, shared_.data(), begin, count, std::cref(work));
  }
}

// The strategy "local" and its fields in the solver file.
namespace {

struct LocalRule {
  PartDescriptor part;
  MergeSettings::Rule rule;
};

const PartRegistry<LocalRule>& LocalRules() {
  static const PartRegistry<LocalRule> rules(
      "merge rule of the strategy local",
      {{{.name = "additive"}, MergeSettings::Rule::kAdditive},
       {{.name = "average", .parameters = {{.name = "share", .least = 0, .most = 1}}},
        MergeSettings::Rule::kAverage},
       {{.name = "easgd",
         .parameters = {{.name = "pull", .least = 1e-6, .most = 1, .required = true}}},
        MergeSettings::Rule::kElastic}});
  return rules;
}

// Reads the periods and the rule. Throws FieldError.
MergeSettings MergeSettingsOf(const caffe::StrategyParameter& strategy, const PartValues& values,
                              bool has_conditions) {
  MergeSettings settings;
  settings.fetch = static_cast<int64_t>(values.at("fetch"));
  settings.push = static_cast<int64_t>(values.at("push"));
  if (strategy.has_merge_rule()) {
    const caffe::PartParameter& rule = strategy.merge_rule();
    const std::string field = "strategy.merge_rule";
    const auto [entry, of_rule] = LocalRules().Choose(field, rule.type(), ValuesOf(rule.param()));
    settings.rule = entry.rule;
    if (settings.rule == MergeSettings::Rule::kAverage) settings.share = of_rule.at("share");
    if (settings.rule == MergeSettings::Rule::kElastic) settings.pull = of_rule.at("pull");
  }
  if (settings.rule != MergeSettings::Rule::kAdditive &&
      (settings.fetch > 0 || settings.push > 0)) {
    throw FieldError("strategy.param",
                     "fetch and push are for the merge rule additive, expected a "
                     "sync_condition for the merge rule ",
                     strategy.merge_rule().type());
  }
  if (has_conditions) return settings;
  if (settings.fetch == 0 && settings.push == 0) {
    throw FieldError("strategy.sync_condition",
                     "is missing, expected when solvers merge: a sync_condition, or the parameters "
                     "fetch and push");
  }
  for (const char* name : {"fetch", "push"}) {
    if (values.at(name) > 0) continue;
    throw FieldError("strategy.param", name,
                     " is missing, expected a period >= 1, or a sync_condition");
  }
  return settings;
}

}  // namespace

LocalPlan::LocalPlan(const caffe::SolverParameter& param, const PartValues& values)
    : conditions(param.strategy()) {
  merge = MergeSettingsOf(param.strategy(), values, !conditions.empty());
  const bool elastic = merge.rule == MergeSettings::Rule::kElastic;
  if (!elastic && !conditions.Make().have_state()) return;
  rule_with_state = StrCat("local ", elastic ? "easgd" : "with conditions that learn");
}

StrategyMaker LocalPlan::Make(const StrategyContext& context) const {
  return [this, context](int index) {
    LocalConfig config(Merger());
    config.solvers = context.solvers;
    config.clock = context.clock;
    config.peers = context.peers_look_ahead;
    auto strategy = std::make_unique<LocalStrategy>(context.weights, std::move(config),
                                                    context.ReplicaOf(index));
    if (context.state.run != nullptr) strategy->RestoreState(context.state.OfSolver(index));
    return strategy;
  };
}

namespace {

const RegisterStrategy local(
    {{.name = "local",
      .parameters = {{.name = "fetch", .least = 0, .most = 1e9, .whole = true},
                     {.name = "push", .least = 0, .most = 1e9, .whole = true}}},
     MakePlan<LocalPlan>});

}  // namespace
}  // namespace millrace::inline strategy
