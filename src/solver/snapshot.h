// Snapshots: PREFIX_iter_N.caffemodel holds the weights, PREFIX_iter_N.solverstate everything else
// that a run needs to continue. Both are Caffe's formats: Caffe reads the files written here (it
// skips the fields from 10000 on), and a solverstate that Caffe wrote can be resumed here. With
// snapshot_format HDF5, both names end in .h5 (hdf5_snapshot.h). Readers look at the file, not at
// its name.
#ifndef MILLRACE_SOLVER_SNAPSHOT_H_
#define MILLRACE_SOLVER_SNAPSHOT_H_

#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/caffe.pb.h"
#include "proto/run_state.pb.h"
#include "solver/run_state.h"
#include "solver/update_rule.h"

namespace millrace::inline nn {
class BuiltNet;
}
namespace millrace::inline solver {

// Everything that is saved at one iteration.
struct Snapshot {
  using Format = caffe::SolverParameter::SnapshotFormat;

  int64_t iteration = 0;     // global: weight updates made so far
  int32_t current_step = 0;  // LrPolicy::StepOfState
  uint64_t seed = 0;
  caffe::NetParameter model;
  std::vector<caffe::StreamPosition> streams;
  // By solver; null if a solver's history is not known. Shared, because the same history may be
  // part of several snapshots.
  std::vector<std::shared_ptr<const History>> histories;
  // The state of the merge rule, without the parts of solvers; without a rule, none is saved.
  RunState run = {};
  // These parts, by solver. If one is null, no state of the rule is saved.
  std::vector<std::shared_ptr<const SolverPart>> parts = {};
  Format format = caffe::SolverParameter::BINARYPROTO;
};

// Why a file of `format` cannot hold the weights of `net`, with their gradients or without; "" if
// it can.
std::string WhyNotSnapshot(const BuiltNet& net, Snapshot::Format format, bool with_diff);

struct SnapshotPaths {
  std::string model, state;
};
SnapshotPaths SnapshotPathsOf(const std::string& prefix, int64_t iteration,
                              Snapshot::Format format = caffe::SolverParameter::BINARYPROTO);

// Writes the model, then the state that names it. Each file appears complete or not at all, and a
// state never names a missing model. Histories that would make the state larger than
// `max_state_bytes` (default: the format's 2 GiB) are left out, and so is the state of the merge
// rule, with a warning in the log; HDF5 has no such limit. Throws Error naming the file (disk full,
// for example).
SnapshotPaths WriteSnapshot(const std::string& prefix, const Snapshot& snapshot,
                            size_t max_state_bytes = INT_MAX);
// The two steps of WriteSnapshot. Each returns its path. The model must exist before the state.
std::string WriteModel(const std::string& prefix, const Snapshot& snapshot);
std::string WriteState(const std::string& prefix, const Snapshot& snapshot,
                       size_t max_state_bytes = INT_MAX);

// Removes the temporary files of processes that were killed while they wrote snapshots of this
// prefix (RemoveStaleTemporaries in base/files/file.h). Returns the number of files.
int RemoveStaleSnapshotFiles(const std::string& prefix);

// "x.NODE.solverstate" for "x.solverstate", and with ".h5" at the end for that: a cluster node's
// own state, beside a snapshot that one of the nodes writes.
std::string NodeStatePath(const std::string& state, const std::string& node);
// Writes that state and no model, with the limit of WriteSnapshot. It names the model of the same
// iteration, which another node may still be writing. Returns the path.
std::string WriteNodeState(const std::string& prefix, const std::string& node,
                           const Snapshot& snapshot, size_t max_state_bytes = INT_MAX);

// The weights in a .caffemodel. Throws Error naming the file if it is missing, empty, truncated, or
// another kind of file. It may name a net without layers, as in Caffe, if `may_lack_layers`.
caffe::NetParameter LoadModel(const std::string& path, bool may_lack_layers = false);
// A .solverstate, whose model may be missing. `run`: receives the state of a merge rule, if the
// file has one; may be null. Throws Error as LoadModel does.
caffe::SolverState LoadState(const std::string& path, std::optional<RunState>* run = nullptr);

// Loads the .caffemodel file `path` into `net` by layer name and returns the number of layers that
// matched. Arrays that layers of the net share may be missing in all but one of these. Throws Error
// naming the file, and the layer whose blobs do not fit.
int CopyModel(const std::string& path, BuiltNet* net, bool may_lack_layers = false);

// Loads a comma-separated list of .caffemodel files into `net`, by layer name, with or without
// blanks around the commas. If several files hold a layer, the last one applies. Throws Error
// naming the file, and the layer whose blobs do not fit. Logs a warning for a file that has no
// layer in common with the net.
void LoadWeights(const std::string& list, BuiltNet* net);

// The same for the layers of a test net that its train net does not have. Logs how many there were.
void LoadOwnWeights(const std::string& list, BuiltNet* test_net);

// Logs a warning that names the layers of `net` whose weights, or some of them, no file has set
// since they were filled; nothing if there are none.
void LogLayersWithoutSavedWeights(const BuiltNet& net);

// A .solverstate and the model that it names.
struct ResumePoint {
  std::string path;        // of the solverstate
  std::string model_path;  // as the state names it, or a file of that name beside the state
  caffe::SolverState state;
  std::optional<RunState> run;  // of a merge rule; none if the file has none

  int64_t iteration() const { return state.iter(); }
  // Number of solvers whose history the file may hold: solvers 0 to this number - 1.
  int solvers() const { return 1 + state.solver_history_size(); }
  // The stored history of `solver`, or nullptr.
  const History* HistoryOf(int solver) const;
  // For a run that continues it; points to this object.
  ContinuedState merge_state() const { return {run ? &*run : nullptr, path}; }
};
// Throws Error naming the file. Checks that the model exists, but not its content.
ResumePoint LoadResumePoint(const std::string& path);
// The same for a state that is already in memory.
ResumePoint MakeResumePoint(const std::string& path, caffe::SolverState state);

// Gives solver `solver` its stored history. Returns whether there is one. Throws Error naming file
// and parameter if it does not fit the rule.
bool RestoreHistory(const ResumePoint& point, int solver, UpdateRule* rule);
// A message for the user if `solvers` solvers resume from a state of another number of solvers; ""
// if each has its own history and none is left over.
std::string ResumeNotice(const ResumePoint& point, int solvers);

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_SNAPSHOT_H_
