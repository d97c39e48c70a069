// ReLU6 and SeLu.
#include "contrib/classification/neuron_kernels.h"
#include "nn/layers/activation/neuron_layer.h"

namespace millrace::inline contrib {
namespace {

// ReLU with an upper bound: top = min(max(bottom, 0), 6). Not in BVLC Caffe, but in forks of it.
class Relu6Layer : public FormulaLayer<Relu6Formula> {
 public:
  using FormulaLayer::FormulaLayer;
};

const RegisterLayer<Relu6Layer> relu6("ReLU6");

// Scaled exponential linear unit, in forks of Caffe as SeLu: top = lambda bottom if that is
// positive, lambda alpha (e^bottom - 1) otherwise.
class SeluLayer : public FormulaLayer<SeluFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"selu_param"}; }
  void SetUp(const Blobs&, const Blobs&) override {
    formula_ = {param_.selu_param().lambda(), param_.selu_param().alpha()};
  }
};

const RegisterLayer<SeluLayer> selu("SeLu");

}  // namespace
}  // namespace millrace::inline contrib
