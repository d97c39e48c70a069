// A sync condition: a solver with weights of its own merges when one of its weights has moved by
// more than `above`, though not before it has made `least` iterations.
//   strategy {
//     type: "local"
//     sync_condition { type: "furthest" param { key: "above" value: 0.01 } }
//   }
#include <millrace/sync_condition.h>

#include <cmath>

namespace {

class FurthestCondition : public millrace::SyncCondition {
 public:
  FurthestCondition(double above, double least) : above_(above), least_(least) {}

  bool Fires(const millrace::SyncState& state) override {
    if (static_cast<double>(state.iterations) < least_) return false;
    for (size_t i = 0; i < state.weights.size(); ++i) {
      if (std::abs(state.weights[i] - state.base[i]) > above_) return true;
    }
    return false;
  }

 private:
  const double above_, least_;
};

const millrace::RegisterSyncCondition registered(
    {.name = "furthest",
     .parameters = {{.name = "above", .least = 0, .most = INFINITY, .required = true},
                    {.name = "least", .default_value = 1, .least = 1, .most = 1e6, .whole = true}}},
    [](const millrace::PartValues& values) {
      return std::make_unique<FurthestCondition>(values.at("above"), values.at("least"));
    });

}  // namespace
