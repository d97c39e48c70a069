#include "solver/snapshot.h"

#include <glog/logging.h>

#include <algorithm>
#include <map>

#include "base/files/file.h"
#include "base/files/hdf5_file.h"
#include "base/text/names.h"
#include "nn/net.h"
#include "proto/parse.h"
#include "solver/hdf5_snapshot.h"

namespace millrace::inline solver {
namespace {

// Whether the file had a field that `message` declares, but with another wire type. This indicates
// another kind of file; the parser alone accepts it.
bool HasForeignField(const google::protobuf::Message& message) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    if (message.GetDescriptor()->FindFieldByNumber(unknown.field(i).number())) return true;
  }
  return false;
}

void CheckState(const std::string& path, const caffe::SolverState& state) {
  if (!state.has_iter() || HasForeignField(state)) {
    throw Error(path, ": holds no iteration, expected a solverstate");
  }
}

constexpr std::string_view kStateEnding = ".solverstate", kHdf5Ending = ".h5";

std::string WithoutBlanks(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::string Basename(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Appends the histories that fit, in the order of the solvers.
void AddHistories(const Snapshot& snapshot, const std::string& path, size_t max_bytes,
                  caffe::SolverState* state) {
  size_t bytes = state->ByteSizeLong();
  for (size_t solver = 0; solver < snapshot.histories.size(); ++solver) {
    caffe::SolverHistory own;
    bytes += 16;  // tag and length, at most
    if (snapshot.histories[solver]) {
      size_t added = 0;
      for (const caffe::BlobProto& blob : *snapshot.histories[solver]) {
        added += blob.ByteSizeLong() + 16;
      }
      if (bytes + added <= max_bytes) {
        bytes += added;
        *own.mutable_history() = *snapshot.histories[solver];
      } else {
        LOG(WARNING) << path << ": the history of solver " << solver << " does not fit the "
                     << max_bytes << " bytes of a file; left out";
      }
    }
    if (solver == 0) {
      state->mutable_history()->Swap(own.mutable_history());
    } else {
      *state->add_solver_history() = std::move(own);
    }
  }
}

void CheckIteration(const std::string& path, const Snapshot& snapshot) {
  if (snapshot.iteration > INT32_MAX) {
    throw Error(path, ": iteration ", snapshot.iteration, " does not fit the format");
  }
}

// The state of the merge rule with the parts of all solvers; none if one of them is missing.
std::optional<RunState> CompleteRunState(const Snapshot& snapshot) {
  const auto& parts = snapshot.parts;
  if (snapshot.run.rule().empty() || parts.size() != static_cast<size_t>(snapshot.run.solvers()) ||
      std::count(parts.begin(), parts.end(), nullptr) > 0) {
    return std::nullopt;
  }
  RunState run = snapshot.run;
  for (const auto& part : snapshot.parts) *run.add_solver() = *part;
  return run;
}

void SaveState(const std::string& path, const std::string& model, const Snapshot& snapshot,
               size_t max_bytes) {
  CheckIteration(path, snapshot);
  caffe::SolverState state;
  state.set_iter(static_cast<int32_t>(snapshot.iteration));
  state.set_learned_net(model);
  state.set_current_step(snapshot.current_step);
  state.set_seed(snapshot.seed);
  state.mutable_stream()->Assign(snapshot.streams.begin(), snapshot.streams.end());
  const std::optional<RunState> run = CompleteRunState(snapshot);
  if (snapshot.format == caffe::SolverParameter::HDF5) {
    AddHistories(snapshot, path, SIZE_MAX, &state);
    return SaveHdf5State(path, state, run ? &*run : nullptr);
  }
  if (run && state.ByteSizeLong() + run->ByteSizeLong() + 16 > max_bytes) {
    LOG(WARNING) << path << ": the state of the merge rule " << run->rule() << " does not fit the "
                 << max_bytes << " bytes of a file; left out";
  } else if (run) {
    SetRunState(*run, &state);
  }
  AddHistories(snapshot, path, max_bytes, &state);
  SaveBinary(path, state);
}

// Gives blobs without shape and values those of the blob that shares their memory in `net`.
void FillSharedBlobs(BuiltNet* net, caffe::NetParameter* model) {
  std::map<const float*, const caffe::BlobProto*> by_memory;
  const auto visit = [&](const auto& use) {
    for (caffe::LayerParameter& layer : *model->mutable_layer()) {
      Layer* const target = net->FindLayer(layer.name());
      if (target == nullptr || layer.blobs_size() == 0) continue;
      for (size_t i = 0; i < target->params().size(); ++i)
        use(*target->params()[i].blob, i, &layer);
    }
  };
  const auto holds = [](const caffe::LayerParameter& layer, size_t i) {
    return i < static_cast<size_t>(layer.blobs_size()) &&
           layer.blobs(static_cast<int>(i)).has_shape();
  };
  visit([&](const Blob& blob, size_t i, caffe::LayerParameter* layer) {
    if (holds(*layer, i)) by_memory[blob.data()] = &layer->blobs(static_cast<int>(i));
  });
  visit([&](const Blob& blob, size_t i, caffe::LayerParameter* layer) {
    if (holds(*layer, i)) return;
    const auto shared = by_memory.find(blob.data());
    if (shared == by_memory.end()) return;
    while (static_cast<size_t>(layer->blobs_size()) <= i) layer->add_blobs();
    caffe::BlobProto* const filled = layer->mutable_blobs(static_cast<int>(i));
    *filled = *shared->second;
    filled->clear_shape();
    filled->mutable_shape();
    for (const int64_t dim : blob.shape()) filled->mutable_shape()->add_dim(dim);
  });
}

}  // namespace

std::string WhyNotSnapshot(const BuiltNet& net, Snapshot::Format format, bool with_diff) {
  caffe::NetParameter model;
  net.ShapesToProto(&model);
  if (format == caffe::SolverParameter::HDF5) {
    const std::string why = WhyNotHdf5(model);
    return why.empty() ? "" : StrCat("HDF5 cannot hold the layers of the net: ", why);
  }
  int64_t bytes = 0;
  for (const caffe::LayerParameter& layer : model.layer()) {
    for (const caffe::BlobProto& blob : layer.blobs()) {
      bytes += ShapeCount(ShapeOf(blob)) * static_cast<int64_t>(sizeof(float));
    }
  }
  if (with_diff) bytes *= 2;
  constexpr int64_t kMaxBytes = INT_MAX - (1 << 20);  // without the net's description
  if (bytes <= kMaxBytes) return "";
  return StrCat("BINARYPROTO cannot hold the ", bytes, " bytes of the weights, which are over the ",
                "format's 2 GiB; HDF5 can");
}

SnapshotPaths SnapshotPathsOf(const std::string& prefix, int64_t iteration,
                              Snapshot::Format format) {
  const std::string stem = StrCat(prefix, "_iter_", iteration);
  const std::string_view ending = format == caffe::SolverParameter::HDF5 ? kHdf5Ending : "";
  return {StrCat(stem, ".caffemodel", ending), StrCat(stem, kStateEnding, ending)};
}

SnapshotPaths WriteSnapshot(const std::string& prefix, const Snapshot& snapshot,
                            size_t max_state_bytes) {
  return {WriteModel(prefix, snapshot), WriteState(prefix, snapshot, max_state_bytes)};
}

std::string WriteModel(const std::string& prefix, const Snapshot& snapshot) {
  const SnapshotPaths paths = SnapshotPathsOf(prefix, snapshot.iteration, snapshot.format);
  CheckIteration(paths.state, snapshot);
  if (snapshot.format == caffe::SolverParameter::HDF5) {
    SaveHdf5Model(paths.model, snapshot.model);
  } else {
    SaveBinary(paths.model, snapshot.model);
  }
  return paths.model;
}

std::string WriteState(const std::string& prefix, const Snapshot& snapshot,
                       size_t max_state_bytes) {
  const SnapshotPaths paths = SnapshotPathsOf(prefix, snapshot.iteration, snapshot.format);
  SaveState(paths.state, paths.model, snapshot, max_state_bytes);
  return paths.state;
}

int RemoveStaleSnapshotFiles(const std::string& prefix) {
  const std::string begin = Basename(prefix) + "_iter_";
  return RemoveStaleTemporaries(Dirname(prefix), [&](std::string_view name) {
    if (!name.starts_with(begin)) return false;
    name.remove_prefix(begin.size());
    const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    if (digits == 0) return false;
    name.remove_prefix(digits);
    // The ending of a model, a state, or a node's state.
    if (name.ends_with(kHdf5Ending)) name.remove_suffix(kHdf5Ending.size());
    return name == ".caffemodel" || (name.starts_with('.') && name.ends_with(".solverstate"));
  });
}

std::string NodeStatePath(const std::string& state, const std::string& node) {
  std::string_view stem = state, ending;
  if (stem.ends_with(kHdf5Ending)) {
    ending = kHdf5Ending;
    stem.remove_suffix(ending.size());
  }
  if (stem.ends_with(kStateEnding)) stem.remove_suffix(kStateEnding.size());
  return StrCat(stem, ".", node, kStateEnding, ending);
}

std::string WriteNodeState(const std::string& prefix, const std::string& node,
                           const Snapshot& snapshot, size_t max_state_bytes) {
  const SnapshotPaths paths = SnapshotPathsOf(prefix, snapshot.iteration, snapshot.format);
  const std::string path = NodeStatePath(paths.state, node);
  SaveState(path, paths.model, snapshot, max_state_bytes);
  return path;
}

caffe::NetParameter LoadModel(const std::string& path, bool may_lack_layers) {
  caffe::NetParameter model;
  if (IsHdf5(path)) {
    model = LoadHdf5Model(path);
  } else {
    LoadBinary(path, "a caffemodel", &model);
  }
  const bool has_layers = model.layer_size() + model.layers_size() > 0;
  if (HasForeignField(model) || !(has_layers || (may_lack_layers && model.has_name()))) {
    throw Error(path, ": holds no layers, expected a caffemodel");
  }
  return model;
}

caffe::SolverState LoadState(const std::string& path, std::optional<RunState>* run) {
  std::optional<RunState> unused;
  if (run == nullptr) run = &unused;
  if (IsHdf5(path)) return LoadHdf5State(path, run);
  caffe::SolverState state;
  LoadBinary(path, "a solverstate", &state);
  CheckState(path, state);
  *run = RunStateOf(state, path);
  state.GetReflection()->MutableUnknownFields(&state)->DeleteByNumber(kRunStateField);
  return state;
}

int CopyModel(const std::string& path, BuiltNet* net, bool may_lack_layers) {
  caffe::NetParameter model = LoadModel(path, may_lack_layers);
  if (IsHdf5(path)) FillSharedBlobs(net, &model);
  return net->CopyWeightsFrom(model, path);
}

namespace {

// Calls body(path) for each path of a comma-separated list.
template <typename Body>
void ForEachPath(const std::string& list, Body body) {
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string path = WithoutBlanks(list.substr(begin, end - begin));
    begin = end + 1;
    if (path.empty()) throw Error("weights: \"", list, "\" names an empty path");
    body(path);
  }
}

}  // namespace

void LoadWeights(const std::string& list, BuiltNet* net) {
  ForEachPath(list, [&](const std::string& path) {
    const int matched = CopyModel(path, net, true);
    if (matched == 0) {
      LOG(WARNING) << path << ": no layer with weights has the name of one in net '" << net->name()
                   << "'; nothing was loaded";
    } else {
      LOG(INFO) << path << ": loaded the weights of " << matched << " layers";
    }
  });
}

void LoadOwnWeights(const std::string& list, BuiltNet* test_net) {
  ForEachPath(list, [&](const std::string& path) {
    caffe::NetParameter model = LoadModel(path, true);
    if (IsHdf5(path)) FillSharedBlobs(test_net, &model);
    const int matched = test_net->CopyOwnWeightsFrom(model, path);
    if (matched == 0) return;
    LOG(INFO) << path << ": loaded the weights of " << matched << " layers of the test net alone";
  });
}

void LogLayersWithoutSavedWeights(const BuiltNet& net) {
  const std::string names = Joined(net.LayersWithoutSavedWeights());
  if (names.empty()) return;
  LOG(WARNING) << "Layers of net '" << net.name()
               << "' that got no saved weights and keep their initial ones: " << names;
}

const History* ResumePoint::HistoryOf(int solver) const {
  const History* history = nullptr;
  if (solver == 0) {
    history = &state.history();
  } else if (solver < solvers()) {
    history = &state.solver_history(solver - 1).history();
  }
  return history && !history->empty() ? history : nullptr;
}

ResumePoint MakeResumePoint(const std::string& path, caffe::SolverState state) {
  CheckState(path, state);
  if (state.iter() < 0) throw Error(path, ": iter: ", state.iter(), " stored, expected >= 0");
  if (state.learned_net().empty()) {
    throw Error(path, ": learned_net: missing, expected the path of a caffemodel");
  }
  ResumePoint point;
  point.path = path;
  point.model_path = state.learned_net();
  if (!FileExists(point.model_path)) {
    const std::string beside = Dirname(path) + Basename(point.model_path);
    if (!FileExists(beside)) {
      throw Error(path, ": learned_net: there is neither ", point.model_path, " nor ", beside);
    }
    point.model_path = beside;
  }
  point.state = std::move(state);
  return point;
}

ResumePoint LoadResumePoint(const std::string& path) {
  std::optional<RunState> run;
  ResumePoint point = MakeResumePoint(path, LoadState(path, &run));
  point.run = std::move(run);
  return point;
}

bool RestoreHistory(const ResumePoint& point, int solver, UpdateRule* rule) {
  const History* history = point.HistoryOf(solver);
  if (!history) return false;
  rule->ImportHistory(*history, solver == 0 ? point.path : StrCat(point.path, ": solver ", solver),
                      point.iteration());
  return true;
}

std::string ResumeNotice(const ResumePoint& point, int solvers) {
  int restored = 0, stored = 0;
  for (int solver = 0; solver < std::max(solvers, point.solvers()); ++solver) {
    if (!point.HistoryOf(solver)) continue;
    ++stored;
    if (solver < solvers) ++restored;
  }
  if (restored == solvers && stored == restored) return "";
  std::string notice = StrCat(point.path, " holds the history of ", stored, " solver",
                              stored == 1 ? "" : "s", ", resuming with ", solvers);
  if (restored < solvers) notice += StrCat(", ", solvers - restored, " of them from zero history");
  if (stored > restored) notice += StrCat("; ", stored - restored, " of the stored ones not used");
  return notice;
}

}  // namespace millrace::inline solver
