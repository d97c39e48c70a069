// Swish: top = bottom / (1 + e^(-beta bottom)).
#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_layer.h"

namespace millrace::inline nn {
namespace {

class SwishLayer : public FormulaLayer<SwishFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"swish_param"}; }
  void SetUp(const Blobs&, const Blobs&) override { formula_ = {param_.swish_param().beta()}; }
};

const RegisterLayer<SwishLayer> registered("Swish");

}  // namespace
}  // namespace millrace::inline nn
