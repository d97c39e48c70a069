// Layers that compute each value of their top from one value of their bottom.
#include <cmath>
#include <variant>

#include "millrace/error.h"
#include "nn/layers/activation/neuron_kernels.h"
#include "nn/layers/activation/neuron_layer.h"

namespace millrace::inline nn {
namespace {

// Absolute value: top = |bottom|. Does not work in place, as in Caffe.
class AbsvalLayer : public FormulaLayer<AbsFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  bool MayWorkInPlace() const override { return false; }
};

const RegisterLayer<AbsvalLayer> absval("AbsVal");

// Binomial normal log likelihood: top = log(1 + e^bottom).
class BnllLayer : public FormulaLayer<BnllFormula> {
 public:
  using FormulaLayer::FormulaLayer;
};

const RegisterLayer<BnllLayer> bnll("BNLL");

// Bounds: top = min(max(bottom, min), max). Both bounds must be set.
class ClipLayer : public FormulaLayer<ClipFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"clip_param"}; }
  void SetUp(const Blobs&, const Blobs&) override {
    const caffe::ClipParameter& clip = param_.clip_param();
    if (!clip.has_min()) throw FieldError("clip_param.min", "missing");
    if (!clip.has_max()) throw FieldError("clip_param.max", "missing");
    if (!(clip.min() <= clip.max())) {
      throw FieldError("clip_param.min", clip.min(), " given, expected at most max: ", clip.max());
    }
    formula_ = {clip.min(), clip.max()};
  }
};

const RegisterLayer<ClipLayer> clip("Clip");

// Exponential linear unit: top = bottom if that is positive, alpha (e^bottom - 1) otherwise.
class EluLayer : public FormulaLayer<EluFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"elu_param"}; }
  void SetUp(const Blobs&, const Blobs&) override { formula_ = {param_.elu_param().alpha()}; }
};

const RegisterLayer<EluLayer> elu("ELU");

// The base of Exp and Log layers.

// The natural logarithm of `base`; -1 means e. Throws FieldError(`field`, ...) for a base that is
// not positive or not finite.
inline double LogOfBase(const char* field, float base) {
  if (base == -1) return 1;
  if (!(base > 0) || !std::isfinite(base)) {
    throw FieldError(field, base, " given, expected a positive number, or -1 for e");
  }
  return std::log(double{base});
}

// Exponential: top = base^(scale bottom + shift). A base of -1, the default, is e.
class ExpLayer : public FormulaLayer<ExpFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"exp_param"}; }
  void SetUp(const Blobs&, const Blobs&) override {
    const caffe::ExpParameter& exp = param_.exp_param();
    const double log_base = LogOfBase("exp_param.base", exp.base());
    formula_ = {static_cast<float>(log_base * exp.scale()),
                static_cast<float>(std::exp(log_base * exp.shift()))};
  }
};

const RegisterLayer<ExpLayer> exp("Exp");

// Logarithm: top = log_base(scale bottom + shift). A base of -1, the default, is e.
class LogLayer : public FormulaLayer<LogFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"log_param"}; }
  void SetUp(const Blobs&, const Blobs&) override {
    const caffe::LogParameter& log = param_.log_param();
    const double log_base = LogOfBase("log_param.base", log.base());
    if (log_base == 0) throw FieldError("log_param.base", "1 given, expected another base");
    formula_ = {static_cast<float>(1 / log_base), log.scale(), log.shift()};
  }
};

const RegisterLayer<LogLayer> log("Log");

// Power: top = (scale bottom + shift)^power. With a power or a scale of 0 the top is a constant.
class PowerLayer : public NeuronLayer {
 public:
  using NeuronLayer::NeuronLayer;

  std::set<std::string> fields() const override { return {"power_param"}; }

  void SetUp(const Blobs&, const Blobs&) override {
    const caffe::PowerParameter& param = param_.power_param();
    const float power = param.power(), scale = param.scale(), shift = param.shift();
    if (power == 0 || scale == 0) {
      formula_ = ConstantFormula{std::pow(shift, power)};
    } else if (power == 1) {
      formula_ = LinearFormula{scale, shift};
    } else if (power == 2) {
      formula_ = SquareFormula{scale, shift};
    } else {
      formula_ = PowerFormula{power, scale, shift};
    }
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    std::visit([&](const auto& formula) { RunForward(formula, bottom, top); }, formula_);
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    std::visit([&](const auto& formula) { RunBackward(formula, top, bottom); }, formula_);
  }

 private:
  std::variant<ConstantFormula, LinearFormula, SquareFormula, PowerFormula> formula_;
};

const RegisterLayer<PowerLayer> power("Power");

// Logistic function: top = 1 / (1 + e^-bottom).
class SigmoidLayer : public FormulaLayer<SigmoidFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"sigmoid_param"}; }
};

const RegisterLayer<SigmoidLayer> sigmoid("Sigmoid");

// Swish: top = bottom / (1 + e^(-beta bottom)).
class SwishLayer : public FormulaLayer<SwishFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"swish_param"}; }
  void SetUp(const Blobs&, const Blobs&) override { formula_ = {param_.swish_param().beta()}; }
};

const RegisterLayer<SwishLayer> swish("Swish");

// Hyperbolic tangent: top = tanh(bottom).
class TanhLayer : public FormulaLayer<TanhFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"tanh_param"}; }
};

const RegisterLayer<TanhLayer> tanh("TanH");

// Comparison: top = 1 where bottom > threshold, 0 elsewhere. Has no gradient: a backward pass to
// its bottom is an error, as in Caffe.
class ThresholdLayer : public FormulaLayer<ThresholdFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"threshold_param"}; }
  void SetUp(const Blobs&, const Blobs&) override {
    formula_ = {param_.threshold_param().threshold()};
  }
  void Backward(const Blobs&, const std::vector<bool>& propagate_down, const Blobs&) override {
    if (!propagate_down[0]) return;
    throw Error("layer '", name(),
                "': a Threshold has no gradient: set propagate_down: false, or train no layer "
                "below it");
  }
};

const RegisterLayer<ThresholdLayer> threshold("Threshold");

}  // namespace
}  // namespace millrace::inline nn
