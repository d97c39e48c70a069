// Sync condition "distance": the solver's weights w have left their base b, the weights after the
// last merge, by |w - b| > above |b|, in Euclidean norms. Reads both arrays once per iteration.
#include <cmath>

#include "millrace/sync_condition.h"

namespace millrace::inline strategy {
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
}  // namespace millrace::inline strategy
