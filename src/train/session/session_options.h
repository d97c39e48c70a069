// What the options of a session (millrace/session.h) mean together with its solver file.
#ifndef MILLRACE_TRAIN_SESSION_SESSION_OPTIONS_H_
#define MILLRACE_TRAIN_SESSION_SESSION_OPTIONS_H_

#include "millrace/session.h"
#include "solver/solver_config.h"
#include "train/options.h"

namespace millrace::inline train {

// The options of the session's run. Throws Error for options that contradict each other, the solver
// file, or the machine.
TrainOptions TrainOptionsOf(const SessionOptions& options, const SolverConfig& config);

// Whether `net` has plain blobs from the beginning. Layers in Python may look at any blob during a
// pass.
bool BeginsPlain(const SolverNet& net, const SessionOptions& options);

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_SESSION_SESSION_OPTIONS_H_
