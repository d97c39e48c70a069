// Stop conditions "target" and "patience", which judge one output of one test net. `direction` 1:
// more is better, -1: less is better.
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "millrace/error.h"
#include "millrace/stop_condition.h"

namespace millrace::inline solver {
namespace {

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
  return {
      .name = std::move(name),
      .parameters = {std::move(own),
                     {.name = "output", .least = 0, .most = 1e6, .whole = true},
                     {.name = "net", .least = 0, .most = 1e6, .whole = true},
                     {.name = "direction", .fallback = 1, .least = -1, .most = 1, .whole = true}}};
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
