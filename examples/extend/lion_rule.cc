// An update rule: Lion (Chen, Liang, Huang et al.: "Symbolic Discovery of Optimization Algorithms",
// NeurIPS 2023). It keeps one number m per weight and moves each weight by the sign of a mean:
//   c = beta1 * m + (1 - beta1) * g
//   w = w - rate * lr_mult * (sign(c) + weight_decay * decay_mult * w)
//   m = beta2 * m + (1 - beta2) * g
// In the solver file, with the values that the keys have by default:
//   type: "Lion"
//   custom_param { key: "beta1" value: "0.9" }
//   custom_param { key: "beta2" value: "0.99" }
#include <millrace/update_rule.h>

namespace {

class LionRule : public millrace::UpdateRule {
 public:
  explicit LionRule(const millrace::UpdateContext& context)
      : UpdateRule(context, 1), beta1_(Beta("beta1", 0.9)), beta2_(Beta("beta2", 0.99)) {
    if (param().has_momentum()) {
      throw millrace::FieldError("momentum",
                                 "Lion has none, expected custom_param beta1 and beta2");
    }
    if (param().regularization_type() != "L2") {
      throw millrace::FieldError("regularization_type", "Lion decays weights, expected \"L2\"");
    }
  }

  std::set<std::string> custom_params() const override { return {"beta1", "beta2"}; }

  void Apply(float rate, float, const float* gradients, float* weights) override {
    const float scale = GradientScale(gradients);  // iter_size, clip_gradients
    for (const millrace::UpdateParam& each : params()) {
      if (each.lr_mult == 0) continue;
      const float step = rate * each.lr_mult;
      const float decay = param().weight_decay() * each.decay_mult;
      ForBlocks(each, weights, [&](int64_t begin, int64_t count) {
        const float* const g = gradients + begin;
        float* const m = history(0) + begin;
        float* const w = weights + begin;
        for (int64_t i = 0; i < count; ++i) {
          const float gradient = scale * g[i];
          const float c = beta1_ * m[i] + (1 - beta1_) * gradient;
          const float sign = static_cast<float>(c > 0) - static_cast<float>(c < 0);
          w[i] -= step * (sign + decay * w[i]);
          m[i] = beta2_ * m[i] + (1 - beta2_) * gradient;
        }
      });
    }
  }

 private:
  float Beta(const char* key, double default_value) const {
    const double beta = CustomNumber(key, default_value);
    if (beta < 0 || beta >= 1) {
      throw millrace::FieldError("custom_param", key, " is ", beta,
                                 ", expected a number from 0 to less than 1");
    }
    return static_cast<float>(beta);
  }

  const float beta1_, beta2_;
};

const millrace::RegisterUpdateRule<LionRule> registered("Lion", millrace::DeviceType::kCpu);

}  // namespace
