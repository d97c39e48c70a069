// Absolute value: top = |bottom|. Does not work in place, as in Caffe.
#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_layer.h"

namespace millrace::inline nn {
namespace {

class AbsvalLayer : public FormulaLayer<AbsFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  bool MayWorkInPlace() const override { return false; }
};

const RegisterLayer<AbsvalLayer> registered("AbsVal");

}  // namespace
}  // namespace millrace::inline nn
