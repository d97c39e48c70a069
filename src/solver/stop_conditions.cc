#include "solver/stop_conditions.h"

#include "proto/part_values.h"

namespace millrace {

RegisterStopCondition::RegisterStopCondition(PartDescriptor descriptor, StopConditionFactory make,
                                             bool needs_tests) {
  StopConditionsByName().Register({std::move(descriptor), std::move(make), needs_tests});
}

}  // namespace millrace
namespace millrace::inline solver {

StopConditionRegistry& StopConditionsByName() {
  static StopConditionRegistry registry("stop condition");
  return registry;
}

StopConditions::StopConditions(const caffe::SolverParameter& param, const Clock* clock)
    : clock_(*clock), begin_seconds_(clock->NowSeconds()) {
  const StopConditionRegistry& registry = StopConditionsByName();
  for (int i = 0; i < param.stop_condition_size(); ++i) {
    const caffe::PartParameter& each = param.stop_condition(i);
    const std::string field = StrCat("stop_condition[", i, "]");
    const auto [entry, values] = registry.Choose(field, each.type(), ValuesOf(each.param()));
    const int tests = param.test_iter_size();
    if (entry.needs_tests && tests == 0) {
      throw FieldError(field + ".type", "the stop condition ", each.type(),
                       " judges tests, expected a test net (see test_iter)");
    }
    if (const auto net = values.find("net");
        entry.needs_tests && net != values.end() && net->second >= tests) {
      throw FieldError(field + ".param", "net is ", net->second, ", expected one of the ", tests,
                       " test nets, from 0");
    }
    try {
      conditions_.emplace_back(each.type(), entry.make(values));
    } catch (const Error& error) {
      throw FieldError(field, error.what());
    }
  }
}

void StopConditions::Start() {
  std::lock_guard lock(mutex_);
  begin_seconds_ = clock_.NowSeconds();
}

template <typename Ask>
bool StopConditions::Any(int64_t iteration, Ask ask) {
  if (conditions_.empty()) return false;
  std::lock_guard lock(mutex_);
  for (const auto& [name, condition] : conditions_) {
    if (!reason_.empty()) break;
    const std::string why = ask(condition.get());
    if (!why.empty()) reason_ = StrCat(name, " at iteration ", iteration, ": ", OneLine(why));
  }
  return !reason_.empty();
}

bool StopConditions::AfterIteration(int64_t completed) {
  return Any(completed, [&](StopCondition* condition) {
    return condition->AfterIteration({completed, clock_.NowSeconds() - begin_seconds_});
  });
}

bool StopConditions::AfterTest(int64_t iteration, const std::vector<std::vector<double>>& outputs) {
  if (tested_.exchange(iteration) == iteration) return !reason().empty();
  bool ends = false;
  for (size_t net = 0; net < outputs.size(); ++net) {
    ends |= AfterTest(iteration, static_cast<int>(net), outputs[net]);
  }
  return ends;
}

bool StopConditions::AfterTest(int64_t iteration, int net, const std::vector<double>& outputs) {
  return Any(iteration, [&](StopCondition* condition) {
    return condition->AfterTest({iteration, net, outputs});
  });
}

std::string StopConditions::reason() const {
  std::lock_guard lock(mutex_);
  return reason_;
}

}  // namespace millrace::inline solver
