#include "model/stored_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <optional>

#include "base/error.h"
#include "base/files/hdf5_file.h"
#include "proto/parse.h"
#include "proto/upgrade.h"
#include "solver/hdf5_snapshot.h"
#include "solver/snapshot.h"

namespace millrace::inline model {
namespace {

using BlobProtos = google::protobuf::RepeatedPtrField<caffe::BlobProto>;

StoredArray ArrayOf(const std::string& name, const caffe::BlobProto& blob) {
  StoredArray array;
  array.name = name;
  array.shape = ShapeOf(blob);
  array.bytes =
      blob.data_size() * int64_t{sizeof(float)} + blob.double_data_size() * int64_t{sizeof(double)};
  for (const float value : blob.data()) array.values.Add(value);
  for (const double value : blob.double_data()) array.values.Add(value);
  for (const float value : blob.diff()) array.diffs.Add(value);
  for (const double value : blob.double_diff()) array.diffs.Add(value);
  return array;
}

std::vector<StoredArray> ArraysOf(const std::string& name, const BlobProtos& blobs) {
  std::vector<StoredArray> arrays;
  for (int i = 0; i < blobs.size(); ++i) {
    arrays.push_back(ArrayOf(StrCat(name, "[", i, "]"), blobs[i]));
  }
  return arrays;
}

void SetModel(caffe::NetParameter model, StoredFile* file) {
  file->kind = StoredFile::Kind::kModel;
  for (const std::string& change : UpgradeNet(SourceMap(file->path), &model).changes) {
    file->earlier_format += (file->earlier_format.empty() ? "" : ", ") + change;
  }
  file->net_name = model.name();
  for (const caffe::LayerParameter& layer : model.layer()) {
    file->layers.push_back({layer.name(), layer.type(), ArraysOf(layer.name(), layer.blobs())});
  }
}

StoredHistory HistoryOf(int solver, const BlobProtos& blobs) {
  StoredHistory history;
  history.solver = solver;
  if (!blobs.empty() && blobs[0].has_updates()) history.updates = blobs[0].updates();
  const std::string name = solver == 0 ? "history" : StrCat("solver ", solver, " history");
  history.arrays = ArraysOf(name, blobs);
  return history;
}

void SetState(const caffe::SolverState& state, StoredFile* file) {
  file->kind = StoredFile::Kind::kState;
  file->iteration = state.iter();
  file->current_step = state.current_step();
  file->model_path = state.learned_net();
  file->has_seed = state.has_seed();
  file->seed = state.seed();
  file->histories.push_back(HistoryOf(0, state.history()));
  for (int i = 0; i < state.solver_history_size(); ++i) {
    file->histories.push_back(HistoryOf(i + 1, state.solver_history(i).history()));
  }
  for (const caffe::StreamPosition& stream : state.stream()) {
    file->data_positions.push_back(StrCat("layer '", stream.layer(), "': batch ",
                                          stream.next_batch(), " of ", stream.batch_size(),
                                          " records"));
  }
}

// A mean file has one array of values, and nothing else.
bool IsMean(const caffe::BlobProto& blob) {
  return blob.data_size() + blob.double_data_size() > 0 &&
         ShapeCount(ShapeOf(blob)) == blob.data_size() + blob.double_data_size();
}

// Calls `read` and returns whether it threw no Error.
template <typename Read>
bool Succeeds(Read read) {
  try {
    read();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void ReadHdf5(StoredFile* file) {
  const Hdf5FileReader reader(file->path);
  if (reader.HasGroup("data")) return SetModel(LoadHdf5Model(file->path), file);
  if (reader.HasDataSet("iter")) return SetState(LoadHdf5State(file->path), file);
  throw Error(file->path,
              ": an HDF5 file with neither layers nor an iteration, expected a "
              "caffemodel or a solverstate");
}

void ReadBinary(StoredFile* file) {
  // If the file cannot be read at all, the first of these gives the reason.
  caffe::BlobProto mean;
  std::optional<Error> unreadable;
  try {
    LoadBinary(file->path, "a caffemodel, a solverstate or a mean file", &mean);
  } catch (const Error& error) {
    unreadable = error;
  }
  if (!unreadable && mean.GetReflection()->GetUnknownFields(mean).empty() && IsMean(mean)) {
    file->kind = StoredFile::Kind::kMean;
    file->mean = ArrayOf("mean", mean);
    return;
  }
  caffe::NetParameter model;
  if (Succeeds([&] { model = LoadModel(file->path); })) return SetModel(std::move(model), file);
  caffe::SolverState state;
  if (Succeeds([&] { state = LoadState(file->path); })) return SetState(state, file);
  if (unreadable) throw *unreadable;
  throw Error(file->path, ": is neither a caffemodel nor a solverstate nor a mean file");
}

}  // namespace

std::vector<const StoredArray*> StoredFile::Arrays() const {
  std::vector<const StoredArray*> arrays;
  for (const StoredLayer& layer : layers) {
    for (const StoredArray& blob : layer.blobs) arrays.push_back(&blob);
  }
  for (const StoredHistory& history : histories) {
    for (const StoredArray& array : history.arrays) arrays.push_back(&array);
  }
  if (kind == Kind::kMean) arrays.push_back(&mean);
  return arrays;
}

StoredFile ReadStoredFile(const std::string& path) {
  StoredFile file;
  file.path = path;
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) throw Error(path, ": ", ErrnoText(errno));
  file.file_bytes = status.st_size;
  file.is_hdf5 = IsHdf5(path);
  if (file.is_hdf5) {
    ReadHdf5(&file);
  } else {
    ReadBinary(&file);
  }
  return file;
}

}  // namespace millrace::inline model
