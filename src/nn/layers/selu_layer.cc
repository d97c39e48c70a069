// Scaled exponential linear unit, in forks of Caffe as SeLu: top = lambda bottom if that is
// positive, lambda alpha (e^bottom - 1) otherwise.
#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_layer.h"

namespace millrace::inline nn {
namespace {

class SeluLayer : public FormulaLayer<SeluFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"selu_param"}; }
  void SetUp(const Blobs&, const Blobs&) override {
    formula_ = {param_.selu_param().lambda(), param_.selu_param().alpha()};
  }
};

const RegisterLayer<SeluLayer> registered("SeLu");

}  // namespace
}  // namespace millrace::inline nn
