// Logarithm: top = log_base(scale bottom + shift). A base of -1, the default, is e.
#include "nn/layers/log_of_base.h"
#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_layer.h"

namespace millrace::inline nn {
namespace {

class LogLayer : public FormulaLayer<LogFormula> {
 public:
  using FormulaLayer::FormulaLayer;

  std::set<std::string> fields() const override { return {"log_param"}; }
  void SetUp(const Blobs&, const Blobs&) override {
    const caffe::LogParameter& log = param_.log_param();
    const double log_base = LogOfBase("log_param.base", log.base());
    if (log_base == 0) throw FieldError("log_param.base", "1 given, expected another base");
    formula_ = {static_cast<float>(1 / log_base), log.scale(), log.shift()};
  }
};

const RegisterLayer<LogLayer> registered("Log");

}  // namespace
}  // namespace millrace::inline nn
