// What a user asks of one training run, beyond the solver file.
#ifndef MILLRACE_TRAIN_OPTIONS_H_
#define MILLRACE_TRAIN_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "train/signals.h"

namespace millrace {

struct TrainOptions {
  std::string solver_file;
  int solvers = 1;                            // threads that share the weights
  std::vector<std::string> weights;           // .caffemodel files to start from
  std::string snapshot;                       // .solverstate to continue
  std::string shm;                            // name under /dev/shm; "" for private weights
  std::string metrics;                        // JSON lines file; "" for none
  uint64_t shard_index = 0, shard_count = 1;  // of the training data
  SignalEffect on_int = SignalEffect::kStop;
  SignalEffect on_hup = SignalEffect::kSnapshot;
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_OPTIONS_H_
