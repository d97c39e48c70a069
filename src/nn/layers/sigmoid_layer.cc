// Logistic function: top = 1 / (1 + e^-bottom).
#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_layer.h"

namespace millrace::inline nn {
namespace {

class SigmoidLayer : public FormulaLayer<SigmoidFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"sigmoid_param"}; }
};

const RegisterLayer<SigmoidLayer> registered("Sigmoid");

}  // namespace
}  // namespace millrace::inline nn
