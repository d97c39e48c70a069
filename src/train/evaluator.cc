#include "train/evaluator.h"

namespace millrace {

Evaluation Evaluate(Net* net, int batches, const std::function<bool()>& stop,
                    const BatchObserver& observe) {
  Evaluation result;
  std::vector<OutputMean> batch_outputs;
  for (const Net::Output& output : net->outputs()) {
    for (int64_t i = 0; i < output.blob->count(); ++i) {
      batch_outputs.push_back({output.name, 0, output.loss_weight});
    }
  }
  result.outputs = batch_outputs;
  for (int batch = 0; batch < batches && !stop(); ++batch) {
    net->set_pass(batch);
    result.loss += net->Forward();
    net->EndIteration();
    size_t index = 0;
    for (const Net::Output& output : net->outputs()) {
      const float* value = output.blob->data();
      for (int64_t i = 0; i < output.blob->count(); ++i, ++index) {
        batch_outputs[index].mean = value[i];
        result.outputs[index].mean += value[i];
      }
    }
    if (observe) observe(batch, batch_outputs);
    ++result.batches;
  }
  const double scale = result.batches > 0 ? 1.0 / result.batches : 0;
  for (OutputMean& output : result.outputs) output.mean *= scale;
  result.loss *= scale;
  return result;
}

std::string LossNote(float loss_weight, double value) {
  if (loss_weight == 0) return "";
  return Cat(" (* ", loss_weight, " = ", loss_weight * value, " loss)");
}

}  // namespace millrace
