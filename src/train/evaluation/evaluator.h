// Runs a net over test batches and averages its outputs. An output of a DetectionEvaluate layer
// gives one value, the mean average precision over all batches. Outputs of a DetectionOutput layer,
// lists of objects, are left out.
#ifndef MILLRACE_TRAIN_EVALUATION_EVALUATOR_H_
#define MILLRACE_TRAIN_EVALUATION_EVALUATOR_H_

#include <functional>
#include <string>
#include <vector>

#include "nn/detection_scores.h"
#include "nn/net.h"

namespace millrace::inline train {

struct OutputMean {
  std::string name;       // of the blob; repeated for each of its values
  double mean = 0;        // over the batches
  float loss_weight = 0;  // of the blob in the objective
  bool is_accuracy = false;
  std::vector<ClassPrecision> classes = {};  // of detections; otherwise empty
};

struct Evaluation {
  std::vector<OutputMean> outputs;
  double loss = 0;  // mean objective
  int batches = 0;  // fewer than requested if stopped
};

// The means alone.
std::vector<double> MeanOutputs(const Evaluation& evaluation);

// Sums over batches of a test.
struct TestSums {
  std::vector<double> outputs;              // in the order of Evaluation::outputs; 0 for detections
  std::vector<DetectionScores> detections;  // one per output of a DetectionEvaluate layer
  double loss = 0;
  int batches = 0;

  // Both sums belong to the same net, or one has no batches.
  void Add(const TestSums& other);
};

// Called after each batch with its output values, in the order of Evaluation::outputs.
using BatchObserver = std::function<void(int batch, const std::vector<OutputMean>& outputs)>;

// `stop` is called before each batch; true ends the evaluation. Of 0 batches, there are no outputs.
// Throws Error if an output changes its number of values between batches, so that it has no mean.
Evaluation Evaluate(BuiltNet* net, int batches, const std::function<bool()>& stop,
                    const BatchObserver& observe = {}, ApVersion version = ApVersion::kIntegral);

// Sums over batches [first, first + count) of a test, read from the current position of the net's
// data. Batch numbers select the random streams. `stop` is called before each batch; true ends the
// evaluation. `version` is that of the observed batches. Throws Error as Evaluate does.
TestSums SumBatches(BuiltNet* net, int first, int count, const std::function<bool()>& stop,
                    const BatchObserver& observe = {}, ApVersion version = ApVersion::kIntegral);
// Means over a test of `net`.
Evaluation MeansOf(const BuiltNet& net, const TestSums& sums,
                   ApVersion version = ApVersion::kIntegral);
// Whether an output of `net` gives a mean average precision.
bool HasDetections(const BuiltNet& net);

// " (* 1 = 0.05 loss)", which Caffe appends to outputs that count in the objective; "" for other
// outputs.
std::string LossNote(float loss_weight, double value);

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_EVALUATION_EVALUATOR_H_
