#include "solver/hdf5_snapshot.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/files/hdf5_file.h"
#include "millrace/blob.h"
#include "proto/parse.h"
#include "solver/run_state.h"

namespace millrace::inline solver {
namespace {

using Blobs = google::protobuf::RepeatedPtrField<caffe::BlobProto>;

constexpr int kMaxBlobs = 1 << 20;  // of a layer or a history; more is damage
// A group may contain itself.
constexpr int kMaxSlashes = 32;  // in the name of a layer
constexpr int kMaxGroups = 1 << 16;

// The number that a member's name is, if it is one.
std::optional<int> IndexOf(const std::string& name) {
  int index = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  return is_number && index >= 0 && index < kMaxBlobs ? std::optional(index) : std::nullopt;
}

void AddBlob(Hdf5FileWriter* file, const std::string& name, const caffe::BlobProto& blob,
             const google::protobuf::RepeatedField<float>& values) {
  const Shape shape = ShapeOf(blob);
  file->AddFloats(name, {shape.begin(), shape.end()}, values.data());
}

void ReadBlob(const Hdf5FileReader& file, const std::string& name, caffe::BlobProto* blob) {
  for (const int64_t dim : file.ShapeOf(name)) blob->mutable_shape()->add_dim(dim);
  blob->mutable_shape();  // without axes: one number
  const std::vector<float> values = file.Floats(name);
  blob->mutable_data()->Assign(values.begin(), values.end());
}

void AddHistory(Hdf5FileWriter* file, const std::string& group, const Blobs& history) {
  file->AddGroup(group);
  for (int i = 0; i < history.size(); ++i) {
    AddBlob(file, StrCat(group, "/", i), history[i], history[i].data());
  }
}

// The blobs 0 to n - 1 of a group with n members.
void ReadHistory(const Hdf5FileReader& file, const std::string& group, Blobs* history) {
  const size_t blobs = file.Members(group).size();
  for (size_t i = 0; i < blobs; ++i) ReadBlob(file, StrCat(group, "/", i), history->Add());
}

// Appends the layers in `group`, whose name begins after `root`. A name with slashes is a path.
// Counts the groups in `read`.
void ReadLayers(const Hdf5FileReader& file, const std::string& root, const std::string& group,
                int* read, caffe::NetParameter* model) {
  if (++*read > kMaxGroups || std::count(group.begin(), group.end(), '/') > kMaxSlashes) {
    throw Error(file.path(), ": ", root, ": more than ", kMaxGroups, " groups, or ", kMaxSlashes,
                " within each other");
  }
  caffe::LayerParameter layer;
  std::vector<std::string> groups;
  for (const std::string& member : file.Members(group)) {
    const std::string path = StrCat(group, "/", member);
    const std::optional<int> index = IndexOf(member);
    if (!index || file.HasGroup(path)) {
      groups.push_back(path);
      continue;
    }
    while (layer.blobs_size() <= *index) layer.add_blobs();
    ReadBlob(file, path, layer.mutable_blobs(*index));
  }
  if (group != root && (layer.blobs_size() > 0 || groups.empty())) {
    layer.set_name(group.substr(root.size() + 1));
    *model->add_layer() = std::move(layer);
  }
  for (const std::string& path : groups) {
    if (!file.HasGroup(path)) throw Error(file.path(), ": ", path, ": expected a layer or a blob");
    ReadLayers(file, root, path, read, model);
  }
}

std::vector<int64_t> UpdatesOf(const caffe::SolverState& state) {
  std::vector<int64_t> updates;
  const auto add = [&](const Blobs& history) {
    updates.push_back(!history.empty() && history[0].has_updates() ? history[0].updates() : -1);
  };
  add(state.history());
  for (const caffe::SolverHistory& solver : state.solver_history()) add(solver.history());
  return updates;
}

void SetUpdates(const std::vector<int64_t>& updates, caffe::SolverState* state) {
  for (size_t solver = 0; solver < updates.size(); ++solver) {
    const int other = static_cast<int>(solver) - 1;
    if (updates[solver] < 0 || other >= state->solver_history_size()) continue;
    Blobs* const history = solver == 0 ? state->mutable_history()
                                       : state->mutable_solver_history(other)->mutable_history();
    if (!history->empty()) (*history)[0].set_updates(updates[solver]);
  }
}

void AddRunState(Hdf5FileWriter* file, const std::string& path, RunState run) {
  int index = 0;
  for (StateArray* const array : ArraysOf(&run)) {
    file->AddFloats(StrCat("millrace/array/", index++), {array->value_size()},
                    array->value().data());
    array->clear_value();
  }
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(run, &text)) {
    throw Error(path, ": cannot hold the state of the merge rule");
  }
  file->AddText("millrace/run", text);
}

std::optional<RunState> ReadRunState(const Hdf5FileReader& file) {
  if (!file.HasDataSet("millrace/run")) return std::nullopt;
  RunState run;
  ParseText(file.Text("millrace/run"), file.path() + ": millrace/run", &run, nullptr);
  int index = 0;
  for (StateArray* const array : ArraysOf(&run)) {
    const std::vector<float> values = file.Floats(StrCat("millrace/array/", index++));
    array->mutable_value()->Assign(values.begin(), values.end());
  }
  return run;
}

// The names between the slashes of `name`.
std::vector<std::string> PartsOf(const std::string& name) {
  std::vector<std::string> parts = {""};
  for (const char c : name) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

std::string WhyNotHdf5(const caffe::NetParameter& model) {
  std::map<std::string, std::string> layer_of;  // by the path of a blob
  for (const caffe::LayerParameter& layer : model.layer()) {
    const std::vector<std::string> parts = PartsOf(layer.name());
    const auto is_lost = [](const std::string& part) { return part.empty() || part == "."; };
    if (layer.blobs_size() == 0) continue;
    if (std::any_of(parts.begin(), parts.end(), is_lost)) {
      return StrCat("\"", layer.name(), "\" would be read back as another name");
    }
    if (parts.size() > kMaxSlashes) {
      return StrCat("\"", layer.name(), "\" has more than ", kMaxSlashes - 1, " slashes");
    }
    for (int i = 0; i < layer.blobs_size(); ++i) {
      const auto [found, is_new] = layer_of.try_emplace(StrCat(layer.name(), "/", i), layer.name());
      if (!is_new) return StrCat("two layers with weights are \"", layer.name(), "\"");
    }
  }
  for (const caffe::LayerParameter& layer : model.layer()) {
    std::string path;
    for (const std::string& part : PartsOf(layer.name())) {
      path += path.empty() ? part : "/" + part;
      const auto found = layer_of.find(path);
      if (found == layer_of.end()) continue;
      return StrCat("layer \"", layer.name(), "\" would need a group at the weights ", path,
                    " of layer \"", found->second, "\"");
    }
  }
  return "";
}

void SaveHdf5Model(const std::string& path, const caffe::NetParameter& model) {
  Hdf5FileWriter file(path);
  file.AddGroup("data");
  std::set<std::string> shared;  // the names of parameters that the file has
  for (const caffe::LayerParameter& layer : model.layer()) {
    if (layer.name().empty()) {
      if (layer.blobs_size() == 0) continue;
      throw Error(path, ": cannot hold the weights of a layer without a name");
    }
    file.AddGroup("data/" + layer.name());
    for (int i = 0; i < layer.blobs_size(); ++i) {
      const caffe::BlobProto& blob = layer.blobs(i);
      const std::string name = i < layer.param_size() ? layer.param(i).name() : "";
      if (name.empty() || shared.insert(name).second) {
        AddBlob(&file, StrCat("data/", layer.name(), "/", i), blob, blob.data());
      }
      if (blob.diff_size() > 0) {
        AddBlob(&file, StrCat("diff/", layer.name(), "/", i), blob, blob.diff());
      }
    }
  }
  file.Commit();
}

caffe::NetParameter LoadHdf5Model(const std::string& path) {
  const Hdf5FileReader file(path);
  if (!file.HasGroup("data")) throw Error(path, ": holds no layers, expected a caffemodel");
  caffe::NetParameter model;
  int groups = 0;
  ReadLayers(file, "data", "data", &groups, &model);
  return model;
}

void SaveHdf5State(const std::string& path, const caffe::SolverState& state, const RunState* run) {
  Hdf5FileWriter file(path);
  file.AddInteger("iter", state.iter());
  file.AddText("learned_net", state.learned_net());
  file.AddInteger("current_step", state.current_step());
  AddHistory(&file, "history", state.history());
  file.AddIntegers("millrace/updates", UpdatesOf(state));
  for (int i = 0; i < state.solver_history_size(); ++i) {
    AddHistory(&file, StrCat("millrace/history/", i + 1), state.solver_history(i).history());
  }
  caffe::SolverState rest;
  rest.mutable_stream()->CopyFrom(state.stream());
  if (state.has_seed()) rest.set_seed(state.seed());
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(rest, &text)) {
    throw Error(path, ": cannot hold the positions of the data");
  }
  file.AddText("millrace/state", text);
  if (run != nullptr) AddRunState(&file, path, *run);
  file.Commit();
}

caffe::SolverState LoadHdf5State(const std::string& path, std::optional<RunState>* run) {
  const Hdf5FileReader file(path);
  if (!file.HasDataSet("iter") || !file.HasGroup("history")) {
    throw Error(path, ": holds no iteration, expected a solverstate");
  }
  caffe::SolverState state;
  if (file.HasDataSet("millrace/state")) {
    const std::string text = file.Text("millrace/state");
    if (!text.empty()) ParseText(text, path + ": millrace/state", &state, nullptr);
  }
  const auto integer = [&](const std::string& name) {
    const int64_t value = file.Integer(name);
    if (value < 0 || value > INT32_MAX) {
      throw Error(path, ": ", name, ": ", value, " stored, expected 0 to ", INT32_MAX);
    }
    return static_cast<int32_t>(value);
  };
  state.set_iter(integer("iter"));
  if (file.HasDataSet("learned_net")) state.set_learned_net(file.Text("learned_net"));
  if (file.HasDataSet("current_step")) state.set_current_step(integer("current_step"));
  ReadHistory(file, "history", state.mutable_history());
  if (file.HasGroup("millrace/history")) {
    const int others = static_cast<int>(file.Members("millrace/history").size());
    for (int i = 1; i <= others; ++i) {
      ReadHistory(file, StrCat("millrace/history/", i),
                  state.add_solver_history()->mutable_history());
    }
  }
  if (file.HasDataSet("millrace/updates")) SetUpdates(file.Integers("millrace/updates"), &state);
  if (run != nullptr) *run = ReadRunState(file);
  return state;
}

}  // namespace millrace::inline solver
