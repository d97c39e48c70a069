// One process's run: solvers on shared weights from start to end.
#ifndef MILLRACE_TRAIN_TRAIN_RUN_H_
#define MILLRACE_TRAIN_TRAIN_RUN_H_

#include <string>
#include <vector>

#include "train/evaluator.h"
#include "train/options.h"

namespace millrace {

struct TrainResult {
  int64_t iteration = 0;  // global, at the end
  bool stopped_early = false;
  float loss = 0;                 // smoothed
  std::vector<Evaluation> tests;  // of the test nets at the end, if one was due
  std::string model, state;       // files of the final snapshot; "" if none was written
  // Why the run counts as failed although it came to its end and the model is saved; one line.
  std::string failure;
};

// Trains as `options` ask; logs, snapshots and tests on the way. The calling
// thread handles signals while the solvers train. Throws Error: bad input
// before anything is trained, or what went wrong in one of the threads; the
// snapshots written until then stay.
TrainResult Train(const TrainOptions& options);

}  // namespace millrace

#endif  // MILLRACE_TRAIN_TRAIN_RUN_H_
