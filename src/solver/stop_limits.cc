// Stop conditions "iterations" and "seconds".
#include <cmath>

#include "millrace/error.h"
#include "millrace/stop_condition.h"

namespace millrace::inline solver {
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

}  // namespace
}  // namespace millrace::inline solver
