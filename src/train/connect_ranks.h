// The processes of a synchronous run: what mpirun or srun started, as ranks.
#ifndef MILLRACE_TRAIN_CONNECT_RANKS_H_
#define MILLRACE_TRAIN_CONNECT_RANKS_H_

#include <memory>

#include "collective/processes.h"
#include "solver/solver_config.h"
#include "train/options.h"

namespace millrace::inline train {

// Whether an iteration of the run is one step of all its solvers.
bool IsSynchronous(const SolverConfig& config);

// Connects the processes that a launcher has started together, if the strategy trains with them;
// null if this process is alone. `config` gets the seed of rank 0; on other ranks it loses what
// rank 0 alone does: displays, tests, stop conditions, snapshots, and loading of weights, which come
// from rank 0.
// Throws Error for processes that the strategy would not combine, unless `options` have a topology
// or shared memory for that; and for solver files that differ.
std::unique_ptr<Processes> ConnectRanks(const TrainOptions& options, SolverConfig* config);

// In a handler of an exception: prints it as a line with the rank and ends all processes. Returns
// if `processes` is null.
void AbortIfConnected(Processes* processes);

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_CONNECT_RANKS_H_
