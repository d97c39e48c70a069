// What a run has before it joins a cluster and trains: options, solver file, data, nets and
// weights. The run may be that of the program (train_run.cc) or a session (session.cc).
#ifndef MILLRACE_TRAIN_RUN_SETUP_H_
#define MILLRACE_TRAIN_RUN_SETUP_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "collective/processes.h"
#include "data/data_service.h"
#include "nn/net.h"
#include "solver/lr_policy.h"
#include "solver/snapshot.h"
#include "solver/solver_config.h"
#include "solver/strategy_plan.h"
#include "train/cluster/cluster_session.h"
#include "train/options.h"
#include "weights/device_weights.h"
#include "weights/weight_buffer.h"

namespace millrace::inline train {

// Throws Error for options that contradict each other.
void CheckOptions(const TrainOptions& options);

// The train net that a session shows to its program.
struct ShownNet {
  bool plain_blobs = false;  // BuiltNetOptions::plain_blobs
};

// The parts in order of construction; destroyed in reverse.
class RunSetup {
 public:
  // `shown`: of a session, which has a net on the host in any case, and a program that decides on
  // each rank what is tested and saved. None: the solver file decides, for all ranks.
  // `processes`: receives those that train with this one, if any; outlives this object. Throws
  // Error with one line.
  RunSetup(SolverConfig config, const TrainOptions& options, const std::optional<ShownNet>& shown,
           std::unique_ptr<Processes>* processes);

  // Solvers of this process: first those on GPUs, then those on CPUs.
  int solvers() const { return gpus() + *options.solvers; }
  int gpus() const { return static_cast<int>(options.gpus.size()); }
  // Solvers that add to its weights without waiting for each other.
  int adding_solvers() const { return synchronous ? 1 : solvers(); }
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
  // That on which a cluster works, without clock, sink and solvers.
  ClusterReplica Replica() const;
  // What strategies get of it; the caller adds what they ask of the run while it trains.
  StrategyContext ContextOfStrategies();
  // The replica of solver `index`; null: it computes on a CPU.
  DeviceWeights* ReplicaOf(int index) const {
    return index < gpus() ? gpu_weights[index].get() : nullptr;
  }
  // The replica on which the segments of a cluster work; null: the host's.
  DeviceWeights* cluster_gpu() const;

  SteadyClock clock;
  SolverConfig config;
  const std::optional<ShownNet> shown;
  const std::unique_ptr<NodeConfig> node_config;  // null: no cluster
  const bool synchronous;                         // StrategyPlan::synchronous
  Processes* const processes;                     // null: this process is alone
  const TrainOptions options;                     // with defaults filled in
  RateScale rate_scale;                           // of a cluster
  LrPolicy policy;
  std::unique_ptr<ResumePoint> resume;    // null: the run starts anew
  bool resumes_own_part = true;           // false: `resume` is of another process
  std::vector<std::string> weight_files;  // that new weights were loaded from
  std::unique_ptr<DataService> data, test_data;
  std::unique_ptr<WeightBuffer> weights;
  std::vector<std::unique_ptr<DeviceWeights>> gpu_weights;
  // By solver, until the solvers take them; null: the solver makes its own (MakeNet). A session
  // whose solvers are all on GPUs has its net on the host behind theirs.
  std::vector<std::unique_ptr<BuiltNet>> nets;
  BuiltNet* net = nullptr;  // one of them, which gave the weights their layout

  // The train net of solver `index` on `device`, or, for the number behind those of the GPUs, that
  // of a session on the host. Throws Error for a net that cannot be built.
  std::unique_ptr<BuiltNet> MakeNet(Device* device, int index) const;

 private:
  // Whether `net`, which fills the weights, is on the host.
  bool fills_on_host() const { return *options.solvers > 0 || shown; }
  void Resume();
  void RemoveStaleFiles() const;
  void CheckSynchronizedLayers() const;
  void CheckMemory() const;
  void MakeNets();
  std::string StrategyText() const;
  void MakeWeights();
  void FillWeights();
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_RUN_SETUP_H_
