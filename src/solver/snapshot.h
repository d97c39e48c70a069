// Snapshots: PREFIX_iter_N.caffemodel, the weights, and PREFIX_iter_N.solverstate,
// what else a run needs to go on from there. Both are Caffe's formats: Caffe
// reads what is written here (it skips the fields from 10000 on), and a
// solverstate that Caffe wrote resumes here.
#ifndef MILLRACE_SOLVER_SNAPSHOT_H_
#define MILLRACE_SOLVER_SNAPSHOT_H_

#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/caffe.pb.h"
#include "solver/update_rule.h"

namespace millrace {

class Net;

// Everything that is saved at one iteration.
struct Snapshot {
  int64_t iteration = 0;     // global: weight updates made so far
  int32_t current_step = 0;  // LrPolicy::Step
  uint64_t seed = 0;
  caffe::NetParameter model;
  std::vector<caffe::StreamPosition> streams;
  // By solver; null where a solver's history is not known. Shared: the same
  // history may go into several snapshots.
  std::vector<std::shared_ptr<const History>> histories;
};

struct SnapshotPaths {
  std::string model, state;
};
SnapshotPaths SnapshotPathsOf(const std::string& prefix, int64_t iteration);

// Writes the model, then the state that names it: each file is there whole or
// not at all, and a state never names a model that is not there. Histories that
// would take the state beyond `most_state_bytes` (by default the format's 2 GiB)
// are left out, with a warning in the log. Throws Error naming the file (a full
// disk, for example).
SnapshotPaths WriteSnapshot(const std::string& prefix, const Snapshot& snapshot,
                            size_t most_state_bytes = INT_MAX);
// The two steps of that, each returns the path. The model is to be there before the state.
std::string WriteModel(const std::string& prefix, const Snapshot& snapshot);
std::string WriteState(const std::string& prefix, const Snapshot& snapshot,
                       size_t most_state_bytes = INT_MAX);

// Removes what processes that were killed while they wrote snapshots of this prefix have left
// behind (RemoveStaleTemporaries in base/file.h). Returns how many files.
int RemoveStaleSnapshotFiles(const std::string& prefix);

// "x.NODE.solverstate" for "x.solverstate": what a node of a cluster keeps of its own
// beside a snapshot that one of them writes.
std::string NodeStatePath(const std::string& state, const std::string& node);
// Writes that and no model, as WriteSnapshot writes states. Names the model of the same
// iteration, which another node may still be writing. Returns the path.
std::string WriteNodeState(const std::string& prefix, const std::string& node,
                           const Snapshot& snapshot, size_t most_state_bytes = INT_MAX);

// The weights in a .caffemodel. Throws Error naming the file if it is missing,
// empty, truncated, or something else.
caffe::NetParameter LoadModel(const std::string& path);

// Loads a comma-separated list of .caffemodel files into `net`, layer by layer
// of the same name; where several hold a layer, the last one counts. Throws
// Error naming the file, and the layer whose blobs do not fit. A file that has
// no layer in common with the net gives a warning in the log.
void LoadWeights(const std::string& list, Net* net);

// A .solverstate and the model that it names.
struct ResumePoint {
  std::string path;        // of the solverstate
  std::string model_path;  // as the state names it, or of that name beside the state
  caffe::SolverState state;

  int64_t iteration() const { return state.iter(); }
  // Solvers whose history the file may hold: 0 to this number - 1.
  int solvers() const { return 1 + state.solver_history_size(); }
  // The stored history of `solver`, or nullptr.
  const History* HistoryOf(int solver) const;
};
// Throws Error naming the file; the model's existence is checked, not its content.
ResumePoint LoadResumePoint(const std::string& path);
// The same for a state that is already in memory.
ResumePoint MakeResumePoint(const std::string& path, caffe::SolverState state);

// Gives solver `solver` its stored history, if there is one: whether there was.
// Throws Error naming file and parameter if it does not fit the rule.
bool RestoreHistory(const ResumePoint& point, int solver, UpdateRule* rule);
// What to tell the user when `solvers` solvers resume from a state of another
// number of them; "" if each takes its own history and none is left over.
std::string ResumeNotice(const ResumePoint& point, int solvers);

}  // namespace millrace

#endif  // MILLRACE_SOLVER_SNAPSHOT_H_
