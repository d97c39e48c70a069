// Settings of one training run beyond the solver file.
#ifndef MILLRACE_TRAIN_OPTIONS_H_
#define MILLRACE_TRAIN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/metrics.h"
#include "train/run_control.h"

namespace millrace {

struct TrainOptions {
  std::string solver_file;
  std::optional<int> solvers;        // threads that share the weights; none: topology's value or 1
  std::vector<std::string> weights;  // .caffemodel files to start from
  std::string snapshot;              // .solverstate to continue
  std::string shm;                   // name under /dev/shm; "": private weights
  std::string metrics;               // JSON lines file; "": none
  std::string topology;              // path of the topology file; "": no cluster
  std::string node;                  // name of this node; "": chosen by rank
  // Shard of the training data; 0 of 0: the topology's shard, or all data.
  uint64_t shard_index = 0, shard_count = 0;
  // Gets the metrics of the run and is published; outlives it; null: a registry of its own.
  MetricsRegistry* registry = nullptr;
  RunControl* control = nullptr;    // commands to the run; outlives it; null: none
  RunObserver* observer = nullptr;  // receives its progress; outlives it; null: none
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_OPTIONS_H_
