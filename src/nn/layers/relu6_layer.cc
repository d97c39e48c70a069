// ReLU with an upper bound: top = min(max(bottom, 0), 6). Not in BVLC Caffe, but in forks of it.
#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_layer.h"

namespace millrace::inline nn {
namespace {

class Relu6Layer : public FormulaLayer<Relu6Formula> {
 public:
  using FormulaLayer::FormulaLayer;
};

const RegisterLayer<Relu6Layer> registered("ReLU6");

}  // namespace
}  // namespace millrace::inline nn
