// Merge rules for tests: one with state, and one that leaves progress unsent; also over spans, as a
// plugin has them.
#ifndef MILLRACE_TEST_SUPPORT_TEST_RULES_H_
#define MILLRACE_TEST_SUPPORT_TEST_RULES_H_

#include <cstdint>
#include <memory>
#include <span>

#include "base/host_device.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "exchange/kernels/rules/easgd_rule.h"
#include "exchange/kernels/rules/merge_rule.h"
#include "exchange/kernels/rules/merge_rule_registry.h"
#include "millrace/merge_rule.h"

namespace millrace::test {

// The master adds diffs with momentum: v := keep v + d, w := w + v.
struct HeavyBallRule : AdditiveRule {
  static constexpr int kStateFloats = 1;
  static constexpr bool kZeroChangesNothing = false;
  float keep = 0;

  template <typename T>
  MILLRACE_HOST_DEVICE T Apply(T w, T d, T* state, uint32_t /*staleness*/) const {
    *state = keep * *state + d;
    return w + *state;
  }
};

inline MergeRuleDescriptor HeavyBallDescriptor() {
  return {.name = "heavy_ball",
          .parameters = {{.name = "keep", .default_value = 0.5, .least = 0, .most = 0.875}}};
}
inline HeavyBallRule MakeHeavyBall(const RuleParameters& parameters) {
  HeavyBallRule rule;
  rule.keep = static_cast<float>(parameters.at("keep"));
  return rule;
}

// EasgdRule with other bounds of its parameters.
inline MergeRuleDescriptor ElasticTestDescriptor() {
  return {.name = "elastic_test",
          .parameters = {{.name = "pull", .default_value = 0.25, .least = 0.0625, .most = 0.5},
                         {.name = "rest", .default_value = 0.125, .least = 1e-3, .most = 1}},
          .rest_distance = [](const RuleParameters& parameters) {
            return static_cast<float>(parameters.at("rest"));
          }};
}
inline EasgdRule MakeElasticTest(const RuleParameters& parameters) {
  return MakeEasgdRule(parameters);
}

// The same formulas over spans.
template <typename Rule>
class OverSpans : public MergeRule {
 public:
  explicit OverSpans(const Rule& rule) : rule_(rule) {}

  void Select(std::span<const float> u, std::span<float> selected) const override {
    for (size_t i = 0; i < u.size(); ++i) selected[i] = rule_.Select(u[i]);
  }
  void Residual(std::span<const float> u, std::span<const float> d,
                std::span<float> rest) const override {
    for (size_t i = 0; i < u.size(); ++i) rest[i] = rule_.Residual(u[i], d[i]);
  }
  void Apply(std::span<float> w, std::span<const float> d, std::span<float> state,
             uint32_t staleness) const override {
    constexpr size_t kStates = Rule::kStateFloats;
    for (size_t i = 0; i < w.size(); ++i) {
      float own[kStateRoom<Rule>] = {};
      for (size_t k = 0; k < kStates; ++k) own[k] = state[k * w.size() + i];
      w[i] = rule_.Apply(w[i], d[i], own, staleness);
      for (size_t k = 0; k < kStates; ++k) state[k * w.size() + i] = own[k];
    }
  }

 private:
  const Rule rule_;
};

// Registers a rule of this file as "NAME_spans".
template <typename Rule>
struct RegisterOverSpans {
  RegisterOverSpans(MergeRuleDescriptor descriptor, Rule (*make)(const RuleParameters&)) {
    descriptor.name += "_spans";
    descriptor.state_floats = Rule::kStateFloats;
    descriptor.zero_changes_nothing = Rule::kZeroChangesNothing;
    RegisterMergeRule(std::move(descriptor), [make](const RuleParameters& parameters) {
      return std::make_unique<OverSpans<Rule>>(make(parameters));
    });
  }
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_TEST_RULES_H_
