// A merge rule: elastic averaging (Zhang, Choromanska, LeCun: "Deep learning with Elastic Averaging
// SGD", NIPS 2015). A worker and its master move towards each other, each by the same share of
// their distance, until that is at most `rest`.
//   segment { ... merge_rule: "elastic" merge_rule_param { key: "pull" value: 0.25 } }
#include <millrace/merge_rule.h>

#include <cmath>

namespace {

class ElasticRule : public millrace::MergeRule {
 public:
  ElasticRule(float pull, float rest) : pull_(pull), rest_(rest) {}

  void Select(std::span<const float> u, std::span<float> selected) const override {
    for (size_t i = 0; i < u.size(); ++i) {
      selected[i] = std::abs(u[i]) > rest_ ? pull_ * u[i] : 0.0f;
    }
  }

  void Residual(std::span<const float> u, std::span<const float> d,
                std::span<float> rest) const override {
    for (size_t i = 0; i < u.size(); ++i) rest[i] = u[i] - 2 * d[i];
  }

  void Apply(std::span<float> w, std::span<const float> d, std::span<float> /*state*/,
             uint32_t /*staleness*/) const override {
    for (size_t i = 0; i < w.size(); ++i) w[i] += d[i];
  }

 private:
  const float pull_, rest_;
};

const millrace::RegisterMergeRule registered(
    {.name = "elastic",
     .parameters = {{.name = "pull", .default_value = 0.25, .least = 0.05, .most = 0.5},
                    {.name = "rest", .default_value = 1e-3, .least = 1e-4, .most = 1}},
     .rest_distance =
         [](const millrace::RuleParameters& parameters) {
           return static_cast<float>(parameters.at("rest"));
         },
     .zero_changes_nothing = true},
    [](const millrace::RuleParameters& parameters) {
      return std::make_unique<ElasticRule>(static_cast<float>(parameters.at("pull")),
                                           static_cast<float>(parameters.at("rest")));
    });

}  // namespace
