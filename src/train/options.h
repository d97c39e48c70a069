// What a user asks of one training run, beyond the solver file.
#ifndef MILLRACE_TRAIN_OPTIONS_H_
#define MILLRACE_TRAIN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/signals.h"

namespace millrace {

struct TrainOptions {
  std::string solver_file;
  std::optional<int> solvers;        // threads that share the weights; none: as the
                                     // topology says, or 1
  std::vector<std::string> weights;  // .caffemodel files to start from
  std::string snapshot;              // .solverstate to continue
  std::string shm;                   // name under /dev/shm; "" for private weights
  std::string metrics;               // JSON lines file; "" for none
  std::string topology;              // the cluster's file; "" for this machine alone
  std::string node;                  // which of its nodes; "": the rank tells
  // Of the training data; 0 of 0: as the topology says, or all of it.
  uint64_t shard_index = 0, shard_count = 0;
  SignalEffect on_int = SignalEffect::kStop;
  SignalEffect on_hup = SignalEffect::kSnapshot;
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_OPTIONS_H_
