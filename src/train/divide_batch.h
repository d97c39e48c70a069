// One batch size for all solvers of a synchronous run: that of the net file is divided among them.
#ifndef MILLRACE_TRAIN_DIVIDE_BATCH_H_
#define MILLRACE_TRAIN_DIVIDE_BATCH_H_

#include "solver/solver_config.h"

namespace millrace::inline train {

// Divides every batch_size of the layers of `net` in its state by `solvers`. Throws Error with file
// and line for one that is not divisible, or if there is none.
void DivideBatch(int solvers, SolverNet* net);

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_DIVIDE_BATCH_H_
