// A process's training run: solvers on shared weights, from start to end.
#ifndef MILLRACE_TRAIN_TRAIN_RUN_H_
#define MILLRACE_TRAIN_TRAIN_RUN_H_

#include <string>
#include <vector>

#include "train/evaluation/evaluator.h"
#include "train/options.h"

namespace millrace::inline train {

struct TrainResult {
  int64_t iteration = 0;          // global, at the end
  bool stopped_early = false;     // by a command or a stop condition
  float loss = 0;                 // smoothed
  std::vector<Evaluation> tests;  // last test, if one was due
  std::string model, state;       // files of the final snapshot; "": none
  // One line with the reason why the run counts as failed, although it is complete and its model is
  // saved; "" if it has not failed.
  std::string failure;
};

// Trains according to `options`, with logs, snapshots and tests. The calling thread receives the
// commands of options.control while the solvers train. Throws Error for bad input before any
// training, or for a failure in one of the threads; snapshots written before that remain.
TrainResult Train(const TrainOptions& options);

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_TRAIN_RUN_H_
