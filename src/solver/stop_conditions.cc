#include "solver/stop_conditions.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "millrace/error.h"
#include "millrace/stop_condition.h"
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

// Stop conditions "iterations" and "seconds".

namespace {

class IterationLimit : public StopCondition {
 public:
  explicit IterationLimit(double most) : most_(static_cast<int64_t>(most)) {}
  std::string AfterIteration(const RunProgress& run) override {
    return run.iterations < most_ ? "" : StrCat(most_, " iterations are complete");
  }

 private:
  const int64_t most_;
};

class TimeLimit : public StopCondition {
 public:
  explicit TimeLimit(double most) : most_(most) {}
  std::string AfterIteration(const RunProgress& run) override {
    return run.seconds < most_ ? "" : StrCat(most_, " s of training have passed");
  }

 private:
  const double most_;
};

const RegisterStopCondition iterations(
    {.name = "iterations",
     .parameters = {{.name = "most", .least = 1, .most = 1e15, .whole = true, .required = true}}},
    [](const PartValues& values) { return std::make_unique<IterationLimit>(values.at("most")); });
const RegisterStopCondition seconds(
    {.name = "seconds",
     .parameters = {{.name = "most", .least = 0, .most = INFINITY, .required = true}}},
    [](const PartValues& values) { return std::make_unique<TimeLimit>(values.at("most")); });

// Stop conditions "target" and "patience", which judge one output of one test net. `direction` 1:
// more is better, -1: less is better.
class OutputCondition : public StopCondition {
 public:
  OutputCondition(std::string name, const PartValues& values)
      : name_(std::move(name)),
        net_(static_cast<int>(values.at("net"))),
        output_(static_cast<size_t>(values.at("output"))),
        direction_(values.at("direction")) {
    if (direction_ == 0) throw Error("direction is 0, expected 1 (more is better) or -1");
  }

  std::string AfterTest(const TestedOutputs& test) final {
    if (test.net != net_) return "";
    if (output_ >= test.outputs.size()) {
      throw Error("the stop condition ", name_, " judges output ", output_, " of test net ", net_,
                  ", which has ", test.outputs.size(), " outputs");
    }
    return Judge(test.outputs[output_]);
  }

 protected:
  // Never true of NaN.
  bool AtLeastAsGood(double value, double than) const {
    return direction_ > 0 ? value >= than : value <= than;
  }
  std::string What() const { return StrCat("output ", output_, " of test net ", net_); }

 private:
  virtual std::string Judge(double value) = 0;

  const std::string name_;
  const int net_;
  const size_t output_;
  const double direction_;
};

class Target : public OutputCondition {
 public:
  explicit Target(const PartValues& values)
      : OutputCondition("target", values), target_(values.at("value")) {}

 private:
  std::string Judge(double value) override {
    if (!AtLeastAsGood(value, target_)) return "";
    return StrCat(What(), " is ", value, ", the target is ", target_);
  }

  const double target_;
};

class Patience : public OutputCondition {
 public:
  explicit Patience(const PartValues& values)
      : OutputCondition("patience", values), tests_(static_cast<int64_t>(values.at("tests"))) {}

 private:
  std::string Judge(double value) override {
    const bool better = !std::isnan(value) && (!best_ || !AtLeastAsGood(*best_, value));
    if (better) {
      best_ = value;
      without_ = 0;
      return "";
    }
    if (++without_ < tests_) return "";
    if (!best_) return StrCat(What(), " was not a number in ", tests_, " tests");
    return StrCat(What(), " has not been better than ", *best_, " in ", tests_, " tests");
  }

  const int64_t tests_;
  std::optional<double> best_;
  int64_t without_ = 0;  // tests since the best
};

PartDescriptor Judging(std::string name, PartParameter own) {
  return {.name = std::move(name),
          .parameters = {
              std::move(own),
              {.name = "output", .least = 0, .most = 1e6, .whole = true},
              {.name = "net", .least = 0, .most = 1e6, .whole = true},
              {.name = "direction", .default_value = 1, .least = -1, .most = 1, .whole = true}}};
}

const RegisterStopCondition target(
    Judging("target", {.name = "value", .least = -INFINITY, .most = INFINITY, .required = true}),
    [](const PartValues& values) { return std::make_unique<Target>(values); }, true);
const RegisterStopCondition patience(
    Judging("patience",
            {.name = "tests", .least = 1, .most = 1e9, .whole = true, .required = true}),
    [](const PartValues& values) { return std::make_unique<Patience>(values); }, true);

}  // namespace
}  // namespace millrace::inline solver
