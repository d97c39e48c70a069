#include "solver/hdf5_snapshot.h"

#include <hdf5.h>

#include <filesystem>
#include <map>

#include "base/files/file.h"
#include "base/files/hdf5_file.h"
#include "base/rng.h"
#include "nn/net.h"
#include "proto/parse.h"
#include "solver/snapshot.h"
#include "solver/update_rule.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::ErrorOf;

caffe::BlobProto BlobOf(const Shape& shape, const std::vector<float>& values) {
  caffe::BlobProto blob;
  for (const int64_t dim : shape) blob.mutable_shape()->add_dim(dim);
  blob.mutable_data()->Add(values.begin(), values.end());
  return blob;
}

std::shared_ptr<const History> HistoryOf(const std::vector<float>& values) {
  auto history = std::make_shared<History>();
  *history->Add() = BlobOf({static_cast<int64_t>(values.size())}, values);
  *history->Add() = BlobOf({1, 1}, {values[0]});
  return history;
}

Snapshot TwoSolvers() {
  Snapshot snapshot;
  snapshot.format = caffe::SolverParameter::HDF5;
  snapshot.iteration = 500;
  snapshot.current_step = 2;
  snapshot.seed = (uint64_t{1} << 63) + 5;
  caffe::LayerParameter* layer = snapshot.model.add_layer();
  layer->set_name("block/ip");
  *layer->add_blobs() = BlobOf({2, 1}, {1, 2});
  *layer->add_blobs() = BlobOf({}, {3});
  snapshot.model.add_layer()->set_name("relu");
  snapshot.histories = {HistoryOf({1, 2, 3}), nullptr, HistoryOf({4, 5, 6})};
  caffe::StreamPosition position;
  position.set_layer("data");
  position.set_next_batch(77);
  position.add_outstanding(76);
  snapshot.streams = {position};
  return snapshot;
}

// ---- Files as Caffe writes and reads them, by the library's own calls ----

void MakeFloats(hid_t at, const char* name, const std::vector<hsize_t>& dims,
                const std::vector<float>& values) {
  const hid_t space = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
  const hid_t set =
      H5Dcreate2(at, name, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  H5Dclose(set), H5Sclose(space);
}

void MakeInt(hid_t at, const char* name, int value) {
  const hsize_t one = 1;
  const hid_t space = H5Screate_simple(1, &one, nullptr);
  const hid_t set =
      H5Dcreate2(at, name, H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value);
  H5Dclose(set), H5Sclose(space);
}

void MakeString(hid_t at, const char* name, const std::string& value) {
  const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
  H5Tset_size(type, value.size() + 1);
  const hid_t set = H5Dcreate2(at, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, value.c_str());
  H5Dclose(set), H5Sclose(space), H5Tclose(type);
}

hid_t MakeGroup(hid_t at, const char* name) {
  return H5Gcreate2(at, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
}

void WriteAsCaffe(const std::string& model, const std::string& state) {
  hid_t file = H5Fcreate(model.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t data = MakeGroup(file, "data"), ip = MakeGroup(data, "ip");
  MakeFloats(ip, "0", {3, 4}, std::vector<float>(12, 0.5f));
  MakeFloats(ip, "1", {3}, {1, 2, 3});
  H5Gclose(ip), H5Gclose(MakeGroup(data, "data")), H5Gclose(data), H5Fclose(file);
  file = H5Fcreate(state.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  MakeInt(file, "iter", 38);
  MakeString(file, "learned_net", model);
  MakeInt(file, "current_step", 1);
  const hid_t history = MakeGroup(file, "history");
  for (const char* name : {"0", "2"}) MakeFloats(history, name, {3, 4}, std::vector<float>(12, 2));
  for (const char* name : {"1", "3"}) MakeFloats(history, name, {3}, {7, 8, 9});
  H5Gclose(history), H5Fclose(file);
}

const char* const kNet =
    "layer { name: 'data' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 4 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'\n"
    "  inner_product_param { num_output: 3 } }\n";

// A net on weights of its own, which are zero.
struct TestNet {
  explicit TestNet(const std::string& text = kNet) {
    caffe::NetParameter param;
    ParseText(text, "net", &param, nullptr);
    net = std::make_unique<BuiltNet>(param, SourceMap(), BuiltNetOptions());
    weights.resize(net->layout().size());
    net->BindWeights(weights.data());
  }
  std::vector<float> Values(const std::string& layer, int blob) const {
    const Blob& values = *net->FindLayer(layer)->params()[blob].blob;
    return {values.data(), values.data() + values.count()};
  }

  std::vector<float> weights;
  std::unique_ptr<BuiltNet> net;
};

TEST(Hdf5Snapshot, IsNamedAsCaffeNamesIt) {
  const SnapshotPaths paths = SnapshotPathsOf("out/lenet", 5000, caffe::SolverParameter::HDF5);
  EXPECT_EQ(paths.model, "out/lenet_iter_5000.caffemodel.h5");
  EXPECT_EQ(paths.state, "out/lenet_iter_5000.solverstate.h5");
  EXPECT_EQ(NodeStatePath(paths.state, "b"), "out/lenet_iter_5000.b.solverstate.h5");
}

TEST(Hdf5Snapshot, ComesBackAsItWasWritten) {
  test::TempDir folder;
  const SnapshotPaths paths = WriteSnapshot(folder / "run", TwoSolvers());
  const caffe::NetParameter model = LoadModel(paths.model);
  ASSERT_EQ(model.layer_size(), 2);
  EXPECT_EQ(model.layer(0).name(), "block/ip");
  ASSERT_EQ(model.layer(0).blobs_size(), 2);
  EXPECT_EQ(ShapeOf(model.layer(0).blobs(0)), (Shape{2, 1}));
  EXPECT_EQ(model.layer(0).blobs(0).data(1), 2);
  EXPECT_EQ(model.layer(0).blobs(1).data(0), 3);
  EXPECT_EQ(model.layer(1).name(), "relu");

  const ResumePoint point = LoadResumePoint(paths.state);
  EXPECT_EQ(point.iteration(), 500);
  EXPECT_EQ(point.model_path, paths.model);
  EXPECT_EQ(point.state.current_step(), 2);
  EXPECT_EQ(point.state.seed(), (uint64_t{1} << 63) + 5);
  ASSERT_EQ(point.solvers(), 3);
  EXPECT_EQ((*point.HistoryOf(0))[0].data(2), 3);
  EXPECT_EQ(point.HistoryOf(1), nullptr);
  EXPECT_EQ((*point.HistoryOf(2))[0].data(2), 6);
  EXPECT_EQ(ShapeOf((*point.HistoryOf(2))[1]), (Shape{1, 1}));
  ASSERT_EQ(point.state.stream_size(), 1);
  EXPECT_EQ(point.state.stream(0).next_batch(), 77u);
  EXPECT_EQ(point.state.stream(0).outstanding(0), 76u);
}

caffe::NetParameter LayersNamed(const std::vector<std::string>& names) {
  caffe::NetParameter model;
  for (const std::string& name : names) {
    caffe::LayerParameter* const layer = model.add_layer();
    layer->set_name(name);
    caffe::BlobProto* const blob = layer->add_blobs();
    blob->mutable_shape()->add_dim(1);
    blob->add_data(static_cast<float>(model.layer_size()));
  }
  return model;
}

// The layers of DenseNet: one is named as the group of another.
TEST(Hdf5Snapshot, HoldsLayersWithinTheGroupsOfOthers) {
  test::TempDir folder;
  const caffe::NetParameter model =
      LayersNamed({"conv2/x1/bn", "conv2/x1/scale", "conv2/x1", "conv2/x2/bn", "conv2/x2", "10"});
  EXPECT_EQ(WhyNotHdf5(model), "");
  SaveHdf5Model(folder / "model.h5", model);
  std::map<std::string, float> read, expected;
  const caffe::NetParameter loaded = LoadHdf5Model(folder / "model.h5");
  for (const auto& layer : loaded.layer()) {
    read[layer.name()] = layer.blobs(0).data(0);
  }
  for (const auto& layer : model.layer()) expected[layer.name()] = layer.blobs(0).data(0);
  EXPECT_EQ(read, expected);
}

TEST(Hdf5Snapshot, IsRefusedForNamesThatAFileCannotHold) {
  EXPECT_CONTAINS(WhyNotHdf5(LayersNamed({"conv", "conv/0"})),
                  "layer \"conv/0\" would need a group at the weights conv/0 of layer \"conv\"");
  EXPECT_CONTAINS(WhyNotHdf5(LayersNamed({"conv/0/bn", "conv"})), "at the weights conv/0");
  EXPECT_CONTAINS(WhyNotHdf5(LayersNamed({"a", "a"})), "two layers with weights are \"a\"");
  for (const char* name : {"", "/a", "a/", "a//b", "./a", "a/."}) {
    EXPECT_CONTAINS(WhyNotHdf5(LayersNamed({name})), "would be read back as another name");
  }
  EXPECT_EQ(WhyNotHdf5(LayersNamed({"conv/1", "conv/1x", ".a", "a."})), "");
}

TEST(Hdf5Snapshot, HoldsTheSameStateAsTheBinaryFile) {
  test::TempDir folder;
  Snapshot snapshot = TwoSolvers();
  auto counted = std::make_shared<History>(*snapshot.histories[2]);
  (*counted)[0].set_updates(123);
  snapshot.histories[2] = counted;
  const caffe::SolverState hdf5 =
      LoadResumePoint(WriteSnapshot(folder / "x", snapshot).state).state;
  snapshot.format = caffe::SolverParameter::BINARYPROTO;
  caffe::SolverState binary = LoadResumePoint(WriteSnapshot(folder / "x", snapshot).state).state;
  binary.set_learned_net(hdf5.learned_net());
  EXPECT_EQ(hdf5.DebugString(), binary.DebugString());
}

TEST(Hdf5Snapshot, LeavesNoHistoryOutForItsSize) {
  test::TempDir folder;
  const ResumePoint point = LoadResumePoint(WriteSnapshot(folder / "run", TwoSolvers(), 1).state);
  EXPECT_NE(point.HistoryOf(0), nullptr);
  EXPECT_NE(point.HistoryOf(2), nullptr);
}

TEST(Hdf5Snapshot, WhoseGroupsContainThemselvesIsRejected) {
  test::TempDir folder;
  const std::string path = folder / "m.caffemodel.h5";
  for (const int links : {1, 4}) {
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t data = MakeGroup(file, "data");
    for (int i = 0; i < links; ++i) {
      H5Lcreate_hard(file, "data", data, StrCat("again", i).c_str(), H5P_DEFAULT, H5P_DEFAULT);
    }
    H5Gclose(data), H5Fclose(file);
    EXPECT_CONTAINS(test::ErrorOf([&] { LoadModel(path); }), path + ": data: more than ");
  }
}

TEST(Hdf5Snapshot, ReadsTheFilesOfCaffe) {
  test::TempDir folder;
  WriteAsCaffe(folder / "m.caffemodel.h5", folder / "s.solverstate.h5");
  TestNet net;
  LoadWeights(folder / "m.caffemodel.h5", net.net.get());
  EXPECT_EQ(net.Values("ip", 0), std::vector<float>(12, 0.5f));
  EXPECT_EQ(net.Values("ip", 1), (std::vector<float>{1, 2, 3}));
  const ResumePoint point = LoadResumePoint(folder / "s.solverstate.h5");
  EXPECT_EQ(point.iteration(), 38);
  EXPECT_EQ(point.state.current_step(), 1);
  EXPECT_EQ(point.solvers(), 1);
  caffe::SolverParameter adam;
  adam.set_type("Adam");
  const auto rule = UpdateRuleRegistry::Get().Create(
      adam, {{"ip/0", {3, 4}, 0, 12, 1, 1}, {"ip/1", {3}, 16, 3, 1, 1}}, 32);
  EXPECT_TRUE(RestoreHistory(point, 0, rule.get()));
  History history;
  rule->ExportHistory(&history);
  EXPECT_EQ(history[0].updates(), 38);
  EXPECT_EQ(history[3].data(2), 9);
}

TEST(Hdf5Snapshot, HasTheLayoutThatCaffeReads) {
  test::TempDir folder;
  Snapshot snapshot = TwoSolvers();
  snapshot.model.mutable_layer(0)->mutable_blobs(0)->add_diff(8);
  snapshot.model.mutable_layer(0)->mutable_blobs(0)->add_diff(9);
  const SnapshotPaths paths = WriteSnapshot(folder / "run", snapshot);
  hid_t file = H5Fopen(paths.model.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  float values[2] = {};
  hid_t set = H5Dopen2(file, "/data/block/ip/0", H5P_DEFAULT);
  ASSERT_GE(set, 0);
  H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  EXPECT_EQ(values[1], 2);
  H5Dclose(set);
  set = H5Dopen2(file, "/diff/block/ip/0", H5P_DEFAULT);
  ASSERT_GE(set, 0);
  H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  EXPECT_EQ(values[1], 9);
  H5Dclose(set), H5Fclose(file);

  file = H5Fopen(paths.state.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  int iteration = 0;
  set = H5Dopen2(file, "iter", H5P_DEFAULT);
  H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &iteration);
  EXPECT_EQ(iteration, 500);
  H5Dclose(set);
  set = H5Dopen2(file, "learned_net", H5P_DEFAULT);
  const hid_t type = H5Dget_type(set);
  EXPECT_EQ(H5Tget_size(type), paths.model.size() + 1);
  H5Tclose(type), H5Dclose(set);
  H5G_info_t info;
  const hid_t history = H5Gopen2(file, "history", H5P_DEFAULT);
  H5Gget_info(history, &info);
  EXPECT_EQ(info.nlinks, 2u);
  H5Gclose(history), H5Fclose(file);
}

// Layers b and c share the arrays of a, c only its bias.
const char* const kSharing =
    "layer { name: 'data' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 4 } } }\n"
    "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' param { name: 'w' }\n"
    "  param { name: 'bias' } inner_product_param { num_output: 3 } }\n"
    "layer { name: 'b' type: 'InnerProduct' bottom: 'x' top: 'b' param { name: 'w' }\n"
    "  param { name: 'bias' } inner_product_param { num_output: 3 } }\n"
    "layer { name: 'c' type: 'InnerProduct' bottom: 'x' top: 'c' param { }\n"
    "  param { name: 'bias' } inner_product_param { num_output: 3 } }\n";

TEST(Hdf5Snapshot, HoldsSharedArraysOnce) {
  test::TempDir folder;
  TestNet net(kSharing), other(kSharing);
  Rng rng(test::Seed(), {1});
  for (float& weight : net.weights) weight = rng.Gaussian();
  Snapshot snapshot;
  snapshot.format = caffe::SolverParameter::HDF5;
  net.net->ToProto(&snapshot.model, false);
  const std::string path = WriteModel(folder / "run", snapshot);
  const Hdf5FileReader file(path);
  EXPECT_TRUE(file.Members("data/b").empty());
  EXPECT_EQ(file.Members("data/c"), std::vector<std::string>{"0"});
  LoadWeights(path, other.net.get());
  for (const std::string layer : {"a", "b", "c"}) {
    for (const int blob : {0, 1}) EXPECT_EQ(other.Values(layer, blob), net.Values(layer, blob));
  }

  // A net that does not share lacks the bias of c.
  std::string text = kSharing;
  for (size_t at; (at = text.find("param { name: 'bias' }")) != std::string::npos;) {
    text.replace(at, 22, "param { }");
  }
  TestNet alone(text);
  EXPECT_EQ(
      ErrorOf([&] { LoadWeights(path, alone.net.get()); }),
      path + ": layer 'c': holds 1 blobs, expected 2; to train a layer anew, rename it in the net");
}

TEST(Hdf5Snapshot, RefusesDamagedFilesWithOneLine) {
  test::TempDir folder;
  const SnapshotPaths paths = WriteSnapshot(folder / "run", TwoSolvers());
  const auto expect_line = [](const std::string& path, const std::string& error) {
    EXPECT_EQ(error.rfind(path + ": ", 0), 0u) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  };
  expect_line(paths.state, ErrorOf([&] { LoadModel(paths.state); }));
  expect_line(paths.model, ErrorOf([&] { LoadResumePoint(paths.model); }));
  const std::string gone = folder / "x.solverstate.h5";
  expect_line(gone, ErrorOf([&] { LoadResumePoint(gone); }));
  for (const std::string& good : {paths.state, paths.model}) {
    const std::string bytes = ReadFile(good), path = folder / "cut.h5";
    for (size_t size = 0; size < bytes.size(); size += 1 + size / 16) {
      test::WriteFile(path, bytes.substr(0, size));
      expect_line(path, ErrorOf([&] { LoadResumePoint(path); }));
      expect_line(path, ErrorOf([&] { LoadModel(path); }));
    }
  }
  // Millrace's own fields, if they are not what they should be.
  {
    Hdf5FileWriter file(gone);
    file.AddInteger("iter", 5);
    file.AddText("learned_net", paths.model);
    file.AddGroup("history");
    file.AddText("millrace/state", "nonsense: 1");
    file.Commit();
  }
  expect_line(gone, ErrorOf([&] { LoadResumePoint(gone); }));
  {
    Hdf5FileWriter file(gone);
    file.AddIntegers("iter", {int64_t{1} << 40});
    file.AddGroup("history");
    file.Commit();
  }
  EXPECT_EQ(ErrorOf([&] { LoadResumePoint(gone); }),
            gone + ": iter: 1099511627776 stored, expected 0 to 2147483647");
}

TEST(Hdf5Snapshot, LeavesTemporaryFilesThatTheNextStartRemoves) {
  test::TempDir folder;
  for (const char* name : {"run_iter_5.caffemodel.h5", "run_iter_5.b.solverstate.h5"}) {
    const std::string path = folder / StrCat(name, ".00000000000000ff.1.1.tmp");
    test::WriteFile(path, "half");
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::min());
  }
  EXPECT_EQ(RemoveStaleSnapshotFiles(folder / "run"), 2);
}

}  // namespace
}  // namespace millrace
