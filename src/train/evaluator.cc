#include "train/evaluator.h"

#include <algorithm>

namespace millrace {
namespace {

std::vector<OutputMean> ValuesOf(const nn::Net& net) {
  std::vector<OutputMean> values;
  for (const nn::Net::Output& output : net.outputs()) {
    for (int64_t i = 0; i < output.blob->count(); ++i) {
      values.push_back({output.name, 0, output.loss_weight, output.layer_type == "Accuracy"});
    }
  }
  return values;
}

}  // namespace

void TestSums::Add(const TestSums& other) {
  outputs.resize(std::max(outputs.size(), other.outputs.size()));
  for (size_t i = 0; i < other.outputs.size(); ++i) outputs[i] += other.outputs[i];
  loss += other.loss;
  batches += other.batches;
}

TestSums SumBatches(nn::Net* net, int first, int count, const std::function<bool()>& stop,
                    const BatchObserver& observe) {
  std::vector<OutputMean> values = ValuesOf(*net);
  TestSums sums;
  sums.outputs.resize(values.size());
  for (int batch = first; batch < first + count && !stop(); ++batch) {
    net->set_pass(batch);
    sums.loss += net->Forward();
    net->EndIteration();
    const std::vector<float> outputs = net->OutputValues();
    for (size_t i = 0; i < outputs.size(); ++i) {
      values[i].mean = outputs[i];
      sums.outputs[i] += outputs[i];
    }
    if (observe) observe(batch, values);
    ++sums.batches;
  }
  return sums;
}

Evaluation MeansOf(const nn::Net& net, const TestSums& sums) {
  Evaluation result;
  result.outputs = ValuesOf(net);
  const double scale = sums.batches > 0 ? 1.0 / sums.batches : 0;
  for (size_t i = 0; i < std::min(result.outputs.size(), sums.outputs.size()); ++i) {
    result.outputs[i].mean = sums.outputs[i] * scale;
  }
  result.loss = sums.loss * scale;
  result.batches = sums.batches;
  return result;
}

Evaluation Evaluate(nn::Net* net, int batches, const std::function<bool()>& stop,
                    const BatchObserver& observe) {
  if (batches == 0) return {};
  return MeansOf(*net, SumBatches(net, 0, batches, stop, observe));
}

std::string LossNote(float loss_weight, double value) {
  if (loss_weight == 0) return "";
  return StrCat(" (* ", loss_weight, " = ", loss_weight * value, " loss)");
}

}  // namespace millrace
