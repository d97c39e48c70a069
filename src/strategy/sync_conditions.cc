#include "strategy/sync_conditions.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "millrace/sync_condition.h"
#include "proto/part_values.h"

namespace millrace {

RegisterSyncCondition::RegisterSyncCondition(PartDescriptor descriptor, SyncConditionFactory make) {
  SyncConditionsByName().Register({std::move(descriptor), std::move(make)});
}

}  // namespace millrace
namespace millrace::inline strategy {

SyncConditionRegistry& SyncConditionsByName() {
  static SyncConditionRegistry registry("sync condition");
  return registry;
}

SyncConditionList::SyncConditionList(const caffe::StrategyParameter& strategy) {
  const SyncConditionRegistry& registry = SyncConditionsByName();
  for (int i = 0; i < strategy.sync_condition_size(); ++i) {
    const caffe::PartParameter& each = strategy.sync_condition(i);
    const std::string field = StrCat("strategy.sync_condition[", i, "]");
    chosen_.push_back(registry.Choose(field, each.type(), ValuesOf(each.param())));
    try {
      chosen_.back().entry.make(chosen_.back().values);
    } catch (const Error& error) {
      throw FieldError(field, error.what());
    }
  }
}

SyncConditions SyncConditionList::Make() const {
  SyncConditions made;
  for (const auto& [entry, values] : chosen_) made.Add(entry.make(values));
  return made;
}

bool SyncConditions::ReadsWeights() const {
  return std::any_of(conditions_.begin(), conditions_.end(),
                     [](const auto& each) { return each->ReadsWeights(); });
}

bool SyncConditions::Fires(const SyncState& state) const {
  bool any = false;
  for (const auto& each : conditions_) any |= each->Fires(state);
  return any;
}

namespace {

std::string FieldOf(size_t index) { return StrCat("sync_condition[", index, "]"); }

}  // namespace

bool SyncConditions::have_state() const {
  return std::any_of(conditions_.begin(), conditions_.end(),
                     [](const auto& each) { return !each->State().empty(); });
}

void SyncConditions::Export(SolverPart* part) const {
  for (size_t i = 0; i < conditions_.size(); ++i) {
    const std::vector<double> state = conditions_[i]->State();
    if (!state.empty()) AddNumbers(FieldOf(i), state, part);
  }
}

void SyncConditions::Restore(const StateReader& stored) const {
  for (size_t i = 0; i < conditions_.size(); ++i) {
    const size_t numbers = conditions_[i]->State().size();
    if (numbers > 0) conditions_[i]->Restore(stored.Numbers(FieldOf(i), numbers));
  }
}

void SyncConditions::Merging(const SyncState& state) const {
  for (const auto& each : conditions_) each->Merging(state);
}

// Sync conditions "steps" and "seconds": a period of a solver's own.
namespace {

class StepsCondition : public SyncCondition {
 public:
  explicit StepsCondition(double every) : every_(static_cast<int64_t>(every)) {}
  bool ReadsWeights() const override { return false; }
  bool Fires(const SyncState& state) override { return state.iterations >= every_; }

 private:
  const int64_t every_;
};

class SecondsCondition : public SyncCondition {
 public:
  explicit SecondsCondition(double every) : every_(every) {}
  bool ReadsWeights() const override { return false; }
  bool Fires(const SyncState& state) override { return state.seconds >= every_; }

 private:
  const double every_;
};

const RegisterSyncCondition steps(
    {.name = "steps",
     .parameters = {{.name = "every", .least = 1, .most = 1e9, .whole = true, .required = true}}},
    [](const PartValues& values) { return std::make_unique<StepsCondition>(values.at("every")); });
const RegisterSyncCondition seconds(
    {.name = "seconds",
     .parameters = {{.name = "every", .least = 0, .most = INFINITY, .required = true}}},
    [](const PartValues& values) {
      return std::make_unique<SecondsCondition>(values.at("every"));
    });

}  // namespace

// Sync condition "distance": the solver's weights w have left their base b, the weights after the
// last merge, by |w - b| > above |b|, in Euclidean norms. Reads both arrays once per iteration.
namespace {

class DistanceCondition : public SyncCondition {
 public:
  explicit DistanceCondition(double above) : above_(above) {}

  bool Fires(const SyncState& state) override {
    double moved = 0, base = 0;
    for (size_t i = 0; i < state.base.size(); ++i) {
      const double b = state.base[i], d = state.weights[i] - b;
      moved += d * d;
      base += b * b;
    }
    // Every distance from weights that are all zero is too far.
    return std::sqrt(moved) > above_ * std::sqrt(base);
  }

 private:
  const double above_;
};

const RegisterSyncCondition distance(
    {.name = "distance",
     .parameters = {{.name = "above", .least = 0, .most = INFINITY, .required = true}}},
    [](const PartValues& values) {
      return std::make_unique<DistanceCondition>(values.at("above"));
    });

}  // namespace

// Sync condition "adaptive": a period in iterations that is chosen such that other solvers complete
// about `staleness` iterations within it. At every merge, the solver measures how many iterations
// the others have completed per iteration of its own since the merge before, and takes the mean of
// this and the former value as its estimate r. The period is staleness / r, from 1 to `most`. While
// nobody else trains, it is `most`.
namespace {

class AdaptiveCondition : public SyncCondition {
 public:
  AdaptiveCondition(double staleness, double most) : staleness_(staleness), most_(most) {}

  bool ReadsWeights() const override { return false; }
  bool Fires(const SyncState& state) override {
    // Before the first merge, the iterations seen so far are the only estimate.
    const double rate = rate_ < 0 ? RateOf(state) : rate_;
    const double period = rate > 0 ? std::clamp(staleness_ / rate, 1.0, most_) : most_;
    return static_cast<double>(state.iterations) >= std::floor(period);
  }

  void Merging(const SyncState& state) override {
    if (state.iterations < 1) return;
    const double measured = RateOf(state);
    rate_ = rate_ < 0 ? measured : (rate_ + measured) / 2;
  }

  std::vector<double> State() const override { return {rate_}; }
  void Restore(std::span<const double> state) override { rate_ = state[0]; }

 private:
  // Iterations of others per iteration of this solver.
  static double RateOf(const SyncState& state) {
    return static_cast<double>(state.shared_iterations - state.iterations) /
           static_cast<double>(state.iterations);
  }

  const double staleness_, most_;
  double rate_ = -1;  // negative: not yet measured
};

const RegisterSyncCondition adaptive(
    {.name = "adaptive",
     .parameters = {{.name = "staleness", .default_value = 16, .least = 0, .most = 1e9},
                    {.name = "most", .default_value = 64, .least = 1, .most = 1e9, .whole = true}}},
    [](const PartValues& values) {
      return std::make_unique<AdaptiveCondition>(values.at("staleness"), values.at("most"));
    });

}  // namespace
}  // namespace millrace::inline strategy
