// Bounds: top = min(max(bottom, min), max). Both bounds must be set.
#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_layer.h"

namespace millrace::inline nn {
namespace {

class ClipLayer : public FormulaLayer<ClipFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"clip_param"}; }
  void SetUp(const Blobs&, const Blobs&) override {
    const caffe::ClipParameter& clip = param_.clip_param();
    if (!clip.has_min()) throw FieldError("clip_param.min", "missing");
    if (!clip.has_max()) throw FieldError("clip_param.max", "missing");
    if (!(clip.min() <= clip.max())) {
      throw FieldError("clip_param.min", clip.min(), " given, expected at most max: ", clip.max());
    }
    formula_ = {clip.min(), clip.max()};
  }
};

const RegisterLayer<ClipLayer> registered("Clip");

}  // namespace
}  // namespace millrace::inline nn
