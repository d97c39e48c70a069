// Hyperbolic tangent: top = tanh(bottom).
#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_layer.h"

namespace millrace::inline nn {
namespace {

class TanhLayer : public FormulaLayer<TanhFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"tanh_param"}; }
};

const RegisterLayer<TanhLayer> registered("TanH");

}  // namespace
}  // namespace millrace::inline nn
