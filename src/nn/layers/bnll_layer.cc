// Binomial normal log likelihood: top = log(1 + e^bottom).
#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_layer.h"

namespace millrace::inline nn {
namespace {

class BnllLayer : public FormulaLayer<BnllFormula> {
 public:
  using FormulaLayer::FormulaLayer;
};

const RegisterLayer<BnllLayer> registered("BNLL");

}  // namespace
}  // namespace millrace::inline nn
