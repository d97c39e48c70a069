#include "train/evaluation/evaluator.h"

#include <algorithm>
#include <span>

namespace millrace::inline train {
namespace {

bool IsOfDetections(const BuiltNet::Output& output) {
  return output.layer_type == "DetectionEvaluate";
}
bool IsListOfObjects(const BuiltNet::Output& output) {
  return output.layer_type == "DetectionOutput";
}

std::vector<OutputMean> ValuesOf(const BuiltNet& net) {
  std::vector<OutputMean> values;
  for (const BuiltNet::Output& output : net.outputs()) {
    if (IsListOfObjects(output)) continue;
    const bool detections = IsOfDetections(output);
    const int64_t count = detections ? 1 : output.blob->count();
    const bool accuracy = detections || output.layer_type == "Accuracy";
    for (int64_t i = 0; i < count; ++i) {
      values.push_back({output.name, 0, output.loss_weight, accuracy, {}});
    }
  }
  return values;
}

void SetPrecision(const DetectionScores& scores, ApVersion version, OutputMean* value) {
  value->classes = scores.Classes(version);
  value->mean = double{DetectionScores::Mean(value->classes)};
}

// Takes the outputs of the net's last pass. Returns them.
std::vector<OutputMean> TakeBatch(const BuiltNet& net, ApVersion version, TestSums* sums) {
  std::vector<OutputMean> values = ValuesOf(net);
  if (sums->batches == 0) sums->outputs.resize(values.size());
  if (sums->outputs.size() != values.size()) {
    throw Error("net '", net.name(), "': its outputs have ", values.size(), " values, after ",
                sums->outputs.size(), " in the batch before; a test has no mean of them");
  }
  const std::vector<float> outputs = net.OutputValues();
  const float* from = outputs.data();
  size_t index = 0, detections = 0;
  for (const BuiltNet::Output& output : net.outputs()) {
    const auto count = static_cast<size_t>(output.blob->count());
    if (IsOfDetections(output)) {
      if (sums->detections.size() <= detections) sums->detections.emplace_back();
      DetectionScores own;
      own.Add(std::span(from, count));
      sums->detections[detections++].Add(own);
      SetPrecision(own, version, &values[index++]);
    } else if (!IsListOfObjects(output)) {
      for (size_t i = 0; i < count; ++i, ++index) {
        values[index].mean = from[i];
        sums->outputs[index] += from[i];
      }
    }
    from += count;
  }
  return values;
}

}  // namespace

void TestSums::Add(const TestSums& other) {
  outputs.resize(std::max(outputs.size(), other.outputs.size()));
  for (size_t i = 0; i < other.outputs.size(); ++i) outputs[i] += other.outputs[i];
  detections.resize(std::max(detections.size(), other.detections.size()));
  for (size_t i = 0; i < other.detections.size(); ++i) detections[i].Add(other.detections[i]);
  loss += other.loss;
  batches += other.batches;
}

TestSums SumBatches(BuiltNet* net, int first, int count, const std::function<bool()>& stop,
                    const BatchObserver& observe, ApVersion version) {
  TestSums sums;
  for (int batch = first; batch < first + count && !stop(); ++batch) {
    net->set_pass(batch);
    sums.loss += net->Forward();
    net->EndIteration();
    const std::vector<OutputMean> values = TakeBatch(*net, version, &sums);
    if (observe) observe(batch, values);
    ++sums.batches;
  }
  return sums;
}

Evaluation MeansOf(const BuiltNet& net, const TestSums& sums, ApVersion version) {
  Evaluation result;
  result.outputs = ValuesOf(net);
  const double scale = sums.batches > 0 ? 1.0 / sums.batches : 0;
  for (size_t i = 0; i < std::min(result.outputs.size(), sums.outputs.size()); ++i) {
    result.outputs[i].mean = sums.outputs[i] * scale;
  }
  size_t index = 0, detections = 0;
  for (const BuiltNet::Output& output : net.outputs()) {
    if (IsListOfObjects(output)) continue;
    const int64_t count = IsOfDetections(output) ? 1 : output.blob->count();
    if (IsOfDetections(output) && detections < sums.detections.size()) {
      SetPrecision(sums.detections[detections++], version, &result.outputs[index]);
    }
    index += count;
  }
  result.loss = sums.loss * scale;
  result.batches = sums.batches;
  return result;
}

bool HasDetections(const BuiltNet& net) {
  return std::any_of(net.outputs().begin(), net.outputs().end(), IsOfDetections);
}

std::vector<double> MeanOutputs(const Evaluation& evaluation) {
  std::vector<double> means;
  for (const OutputMean& output : evaluation.outputs) means.push_back(output.mean);
  return means;
}

Evaluation Evaluate(BuiltNet* net, int batches, const std::function<bool()>& stop,
                    const BatchObserver& observe, ApVersion version) {
  if (batches == 0) return {};
  return MeansOf(*net, SumBatches(net, 0, batches, stop, observe, version), version);
}

std::string LossNote(float loss_weight, double value) {
  if (loss_weight == 0) return "";
  return StrCat(" (* ", loss_weight, " = ", loss_weight * value, " loss)");
}

}  // namespace millrace::inline train
