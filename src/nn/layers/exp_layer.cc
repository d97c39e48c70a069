// Exponential: top = base^(scale bottom + shift). A base of -1, the default, is e.
#include <cmath>

#include "nn/layers/log_of_base.h"
#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_layer.h"

namespace millrace::inline nn {
namespace {

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

const RegisterLayer<ExpLayer> registered("Exp");

}  // namespace
}  // namespace millrace::inline nn
