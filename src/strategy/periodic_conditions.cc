// Sync conditions "steps" and "seconds": a period of a solver's own.
#include <cmath>

#include "millrace/sync_condition.h"

namespace millrace::inline strategy {
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
}  // namespace millrace::inline strategy
