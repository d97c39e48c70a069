// Runs a net over test batches and averages what it says.
#ifndef MILLRACE_TRAIN_EVALUATOR_H_
#define MILLRACE_TRAIN_EVALUATOR_H_

#include <functional>
#include <string>
#include <vector>

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
  int batches = 0;  // fewer than asked for if it was stopped
};

// What some batches of a test add up to.
struct TestSums {
  std::vector<double> outputs;  // as Evaluation::outputs
  double loss = 0;
  int batches = 0;

  // Both of the same net, or one of them without batches.
  void Add(const TestSums& other);
};

// Called after each batch with its outputs' values, in the order of
// Evaluation::outputs.
using BatchObserver = std::function<void(int batch, const std::vector<OutputMean>& outputs)>;

// `stop` is asked before each batch.
Evaluation Evaluate(Net* net, int batches, const std::function<bool()>& stop,
                    const BatchObserver& observe = {});

// The sums over batches [first, first + count) of a test, from where the net's data stands;
// `first` names random streams. `stop` is asked before each batch.
TestSums SumBatches(Net* net, int first, int count, const std::function<bool()>& stop,
                    const BatchObserver& observe = {});
// The means of a test of `net`.
Evaluation MeansOf(const Net& net, const TestSums& sums);

// " (* 1 = 0.05 loss)", as Caffe appends to outputs that count in the objective;
// "" for others.
std::string LossNote(float loss_weight, double value);

}  // namespace millrace

#endif  // MILLRACE_TRAIN_EVALUATOR_H_
