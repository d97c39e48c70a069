// The processes of a synchronous run: what mpirun or srun started, as ranks.
#ifndef MILLRACE_TRAIN_CLUSTER_CONNECT_RANKS_H_
#define MILLRACE_TRAIN_CLUSTER_CONNECT_RANKS_H_

#include <memory>

#include "collective/processes.h"
#include "solver/solver_config.h"
#include "train/options.h"

namespace millrace::inline train {

// Connects the processes that a launcher has started together, for a synchronous strategy; leaves
// `processes` null if this process is alone, or if `options` have a topology or shared memory to
// combine processes. `config` gets the seed of rank 0. With `first_rank_saves`, it loses on other
// ranks what rank 0 alone does: displays, tests, stop conditions, snapshots, and loading of
// weights, which come from rank 0. Throws Error for solver files that differ, with `processes`
// connected.
void ConnectRanks(const TrainOptions& options, bool first_rank_saves, SolverConfig* config,
                  std::unique_ptr<Processes>* processes);

// For a strategy that is not synchronous: throws Error if a launcher has started several processes,
// unless `options` have a topology or shared memory to combine them.
void RefuseSeparateRanks(const TrainOptions& options, const SolverConfig& config);

// In a handler of an exception: prints it as a line with the rank and ends all processes. Returns
// if `processes` is null.
void AbortIfConnected(Processes* processes);

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_CLUSTER_CONNECT_RANKS_H_
