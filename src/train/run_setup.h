// What a run has before it joins a cluster and trains: options, solver file, data, nets and
// weights. A training run has all of it (RunSetup); a session shares the functions.
#ifndef MILLRACE_TRAIN_RUN_SETUP_H_
#define MILLRACE_TRAIN_RUN_SETUP_H_

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "collective/processes.h"
#include "data/data_service.h"
#include "nn/net.h"
#include "solver/lr_policy.h"
#include "solver/snapshot.h"
#include "solver/solver_config.h"
#include "train/cluster/cluster_session.h"
#include "train/options.h"
#include "weights/device_weights.h"
#include "weights/weight_buffer.h"

namespace millrace::inline train {

// Logs what was noticed in a solver file.
void LogNotices(const SolverConfig& config);

// Fills new weights, to which `net` is bound: from the snapshot `resume`, or, if that is null, from
// the fillers and then from `files`, or without these from the files that the solver file names.
// Sets `clock` to the iteration of the snapshot. Returns the files that were loaded. Throws Error
// naming the file.
std::vector<std::string> FillNewWeights(const SolverConfig& config, const ResumePoint* resume,
                                        std::vector<std::string> files, BuiltNet* net,
                                        IterationClock* clock);

// Throws Error for options that contradict each other.
void CheckOptions(const TrainOptions& options);

// The parts in order of construction; destroyed in reverse.
class RunSetup {
 public:
  // `processes`: receives those that train with this one, if any; outlives this object. Throws
  // Error with one line.
  RunSetup(const TrainOptions& options, std::unique_ptr<Processes>* processes);

  // Solvers of this process: first those on GPUs, then those on CPUs.
  int solvers() const { return gpus() + *options.solvers; }
  int gpus() const { return static_cast<int>(options.gpus.size()); }
  // Solvers of all processes that train with this one.
  int solvers_of_run() const { return solvers() * (processes ? processes->size() : 1); }
  bool is_first_rank() const { return processes == nullptr || processes->rank() == 0; }
  // Name of the part that this process adds to snapshots: that of the node; of a later rank whose
  // solvers have state of their own, "rankN"; else "".
  std::string part_name() const;
  // Title of the counter file: net, cluster and node.
  std::string Title() const;
  // Logs where the weights are, and their size.
  void LogWeights() const;
  // The replica on which the segments of a cluster work; null: the host's.
  DeviceWeights* cluster_gpu() const;

  const std::unique_ptr<NodeConfig> node_config;  // null: no cluster
  SteadyClock clock;
  SolverConfig config;
  const bool synchronous;      // an iteration is a step of all solvers
  Processes* const processes;  // null: this process is alone
  const TrainOptions options;  // with defaults filled in
  RateScale rate_scale;        // of a cluster
  LrPolicy policy;
  std::unique_ptr<ResumePoint> resume;    // null: the run starts anew
  bool resumes_own_part = true;           // false: `resume` is of another process
  std::vector<std::string> weight_files;  // that new weights were loaded from
  std::unique_ptr<DataService> data, test_data;
  std::unique_ptr<WeightBuffer> weights;
  std::vector<std::unique_ptr<DeviceWeights>> gpu_weights;
  std::vector<std::unique_ptr<BuiltNet>> nets;  // by solver, until the solvers take them
  BuiltNet* net = nullptr;                      // one of them, which gave the weights their layout

 private:
  void Resume();
  void CheckSynchronizedLayers() const;
  void CheckMemory() const;
  void MakeNets();
  std::string StrategyText() const;
  void MakeWeights();
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_RUN_SETUP_H_
