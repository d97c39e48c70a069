// Power: top = (scale bottom + shift)^power. With a power or a scale of 0 the top is a constant.
#include <cmath>
#include <variant>

#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_layer.h"

namespace millrace::inline nn {
namespace {

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

const RegisterLayer<PowerLayer> registered("Power");

}  // namespace
}  // namespace millrace::inline nn
