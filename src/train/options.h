// Settings of one training run beyond the solver file.
#ifndef MILLRACE_TRAIN_OPTIONS_H_
#define MILLRACE_TRAIN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/device.h"
#include "millrace/metrics.h"
#include "nn/gpu/gpu_settings.h"
#include "proto/caffe.pb.h"
#include "rendezvous/rendezvous.h"
#include "train/run_control.h"

namespace millrace::inline train {

struct TrainOptions {
  std::string solver_file;
  caffe::NetState train_state;  // merged into the train_state of the solver file
  // Solver threads on CPUs that share the host's weights. None: with GPUs 0, otherwise the
  // topology's value or 1.
  std::optional<int> solvers;
  // Each has a solver on a replica of its own. They outlive the run. Empty and `solvers` not set:
  // as the solver file's solver_mode says (choose_gpus.h).
  std::vector<Device*> gpus;
  GpuSettings gpu_settings;
  double gpu_max_mbps = 0;  // limit of each GPU's link to the host, in each direction; 0: none
  std::vector<std::string> weights;  // .caffemodel files to start from
  std::string snapshot;              // .solverstate to continue
  std::string shm;                   // name under /dev/shm; "": private weights
  std::string metrics;               // JSON lines file; "": none
  std::string tensorboard;           // folder of event files; "": none
  std::string topology;              // path of the topology file; "": no cluster, or an elastic one
  // With a `url`: nodes join and leave by a registry, and `topology` has segments only.
  RendezvousOptions rendezvous;
  bool scales_rate = true;  // the learning rate follows Topology.scaling
  std::string node;         // name of this node; "": chosen by rank
  // Shard of the training data; 0 of 0: the topology's shard, or all data.
  uint64_t shard_index = 0, shard_count = 0;
  // Gets the metrics of the run and is published; outlives it; null: a registry of its own.
  MetricsRegistry* registry = nullptr;
  RunControl* control = nullptr;    // commands to the run; outlives it; null: none
  RunObserver* observer = nullptr;  // receives its progress; outlives it; null: none

  bool in_cluster() const { return !topology.empty() || !rendezvous.url.empty(); }
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_OPTIONS_H_
