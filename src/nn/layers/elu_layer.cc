// Exponential linear unit: top = bottom if that is positive, alpha (e^bottom - 1) otherwise.
#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_layer.h"

namespace millrace::inline nn {
namespace {

class EluLayer : public FormulaLayer<EluFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"elu_param"}; }
  void SetUp(const Blobs&, const Blobs&) override { formula_ = {param_.elu_param().alpha()}; }
};

const RegisterLayer<EluLayer> registered("ELU");

}  // namespace
}  // namespace millrace::inline nn
