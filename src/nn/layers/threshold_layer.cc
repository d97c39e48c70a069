// Comparison: top = 1 where bottom > threshold, 0 elsewhere. Has no gradient: a backward pass to
// its bottom is an error, as in Caffe.
#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_layer.h"

namespace millrace::inline nn {
namespace {

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

const RegisterLayer<ThresholdLayer> registered("Threshold");

}  // namespace
}  // namespace millrace::inline nn
