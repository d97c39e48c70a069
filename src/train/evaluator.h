// Runs a net over test batches and averages its outputs.
#ifndef MILLRACE_TRAIN_EVALUATOR_H_
#define MILLRACE_TRAIN_EVALUATOR_H_

#include <functional>
#include <string>
#include <vector>

#include "millrace/export.h"
#include "nn/net.h"

namespace millrace {

struct OutputMean {
  std::string name;       // of the blob; repeated for each of its values
  double mean = 0;        // over the batches
  float loss_weight = 0;  // of the blob in the objective
  bool is_accuracy = false;
};

struct Evaluation {
  std::vector<OutputMean> outputs;
  double loss = 0;  // mean objective
  int batches = 0;  // fewer than requested if stopped
};

// Sums over batches of a test.
struct TestSums {
  std::vector<double> outputs;  // in the order of Evaluation::outputs
  double loss = 0;
  int batches = 0;

  // Both sums belong to the same net, or one has no batches.
  void Add(const TestSums& other);
};

// Called after each batch with its output values, in the order of Evaluation::outputs.
using BatchObserver = std::function<void(int batch, const std::vector<OutputMean>& outputs)>;

// `stop` is called before each batch; true ends the evaluation. Of 0 batches, there are no outputs.
MILLRACE_API Evaluation Evaluate(nn::Net* net, int batches, const std::function<bool()>& stop,
                                 const BatchObserver& observe = {});

// Sums over batches [first, first + count) of a test, read from the current position of the net's
// data. Batch numbers select the random streams. `stop` is called before each batch; true ends the
// evaluation.
TestSums SumBatches(nn::Net* net, int first, int count, const std::function<bool()>& stop,
                    const BatchObserver& observe = {});
// Means over a test of `net`.
Evaluation MeansOf(const nn::Net& net, const TestSums& sums);

// " (* 1 = 0.05 loss)", which Caffe appends to outputs that count in the objective; "" for other
// outputs.
MILLRACE_API std::string LossNote(float loss_weight, double value);

}  // namespace millrace

#endif  // MILLRACE_TRAIN_EVALUATOR_H_
