// What the options of a session (millrace/session.h) mean together with its solver file.
#ifndef MILLRACE_TRAIN_SESSION_OPTIONS_H_
#define MILLRACE_TRAIN_SESSION_OPTIONS_H_

#include <vector>

#include "collective/processes.h"
#include "data/data_service.h"
#include "millrace/device.h"
#include "millrace/session.h"
#include "solver/solver_config.h"
#include "train/cluster/cluster_session.h"
#include "train/options.h"

namespace millrace::inline train {

// Throws Error for options that contradict each other or the solver file.
void CheckSessionOptions(const SessionOptions& options, const SolverConfig& config);

// The fields that concern the cluster.
TrainOptions ClusterPart(const SessionOptions& options);

// Options of the training data, for `solvers` in this process. `node_config` and `processes`: null
// if there are none. Throws Error for a shard that does not exist.
DataOptions TrainData(const SessionOptions& options, int solvers, const NodeConfig* node_config,
                      const Processes* processes, const SolverConfig& config);

// The devices of the solvers, at least one, the host last. Throws Error.
std::vector<Device*> DevicesOf(const SessionOptions& options);

// Whether `net` has plain blobs from the beginning. Layers in Python may look at any blob during a
// pass.
bool BeginsPlain(const SolverNet& net, const SessionOptions& options);

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_SESSION_OPTIONS_H_
