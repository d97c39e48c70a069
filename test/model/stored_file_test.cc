// What files of weights, solver states and means hold.
#include "model/stored_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "proto/parse.h"
#include "solver/hdf5_snapshot.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

void SetBlob(const Shape& shape, const std::vector<float>& values, caffe::BlobProto* blob) {
  for (const int64_t dim : shape) blob->mutable_shape()->add_dim(dim);
  blob->mutable_data()->Assign(values.begin(), values.end());
}

caffe::NetParameter Model() {
  caffe::NetParameter model;
  model.set_name("tiny");
  caffe::LayerParameter* layer = model.add_layer();
  layer->set_name("ip");
  layer->set_type("InnerProduct");
  SetBlob({2, 2}, {1, 2, 3, 6}, layer->add_blobs());
  SetBlob({2}, {-1, 1}, layer->add_blobs());
  model.add_layer()->set_name("relu");
  return model;
}

caffe::SolverState State() {
  caffe::SolverState state;
  state.set_iter(70);
  state.set_learned_net("gone.caffemodel");
  state.set_current_step(3);
  state.set_seed(9);
  SetBlob({2}, {0.5f, 1.5f}, state.add_history());
  SetBlob({1}, {4}, state.add_solver_history()->add_history());
  caffe::StreamPosition* stream = state.add_stream();
  stream->set_layer("data");
  stream->set_next_batch(12);
  stream->set_batch_size(64);
  return state;
}

TEST(StoredFile, TellsShapesAndStatisticsOfWeights) {
  TempDir folder;
  SaveBinary(folder / "tiny", Model());
  const StoredFile file = ReadStoredFile(folder / "tiny");
  EXPECT_EQ(file.kind, StoredFile::Kind::kModel);
  EXPECT_EQ(file.net_name, "tiny");
  ASSERT_EQ(file.layers.size(), 2u);
  ASSERT_EQ(file.layers[0].blobs.size(), 2u);
  const StoredArray& weights = file.layers[0].blobs[0];
  EXPECT_EQ(weights.name, "ip[0]");
  EXPECT_EQ(weights.shape, (Shape{2, 2}));
  EXPECT_EQ(weights.bytes, 16);
  EXPECT_EQ(weights.values.count(), 4);
  EXPECT_EQ(weights.values.min(), 1);
  EXPECT_EQ(weights.values.max(), 6);
  EXPECT_EQ(weights.values.mean(), 3);
  EXPECT_DOUBLE_EQ(weights.values.std(), std::sqrt((4 + 1 + 0 + 9) / 4.0));
  EXPECT_CONTAINS(StoredFileText(file), "caffemodel of 'tiny', 6 values");
  EXPECT_CONTAINS(StoredFileText(file), "1 layer without weights");
  EXPECT_CONTAINS(StoredFileJson(file),
                  R"("layers":[{"name":"ip","type":"InnerProduct","blobs":[{"name":"ip[0]",)"
                  R"("shape":[2,2],"bytes":16,"count":4,"min":1,"max":6,"mean":3,"std":1.87)");
}

TEST(StoredFile, CountsValuesThatAreNotFinite) {
  caffe::NetParameter model = Model();
  model.mutable_layer(0)->mutable_blobs(0)->set_data(1, NAN);
  model.mutable_layer(0)->mutable_blobs(0)->set_data(3, -std::numeric_limits<float>::infinity());
  model.mutable_layer(0)->mutable_blobs(1)->set_data(0, NAN);
  model.mutable_layer(0)->mutable_blobs(1)->set_data(1, NAN);
  TempDir folder;
  SaveBinary(folder / "tiny", model);
  const StoredFile file = ReadStoredFile(folder / "tiny");
  const ValueStats& values = file.layers[0].blobs[0].values;
  EXPECT_EQ(values.nans(), 1);
  EXPECT_EQ(values.infinities(), 1);
  EXPECT_EQ(values.count(), 4);
  EXPECT_EQ(values.mean(), 2);  // of 1 and 3
  EXPECT_TRUE(std::isnan(file.layers[0].blobs[1].values.mean()));
  EXPECT_CONTAINS(StoredFileText(file), "4 of the values not finite");
  EXPECT_CONTAINS(StoredFileText(file), "1 NaN, 1 Inf");
  EXPECT_CONTAINS(StoredFileJson(file), "\"mean\":null");
}

TEST(StoredFile, ReadsStatesWhoseModelIsMissing) {
  TempDir folder;
  SaveBinary(folder / "state", State());
  SaveHdf5State(folder / "state.h5", State());
  for (const char* name : {"state", "state.h5"}) {
    const StoredFile file = ReadStoredFile(folder / name);
    EXPECT_EQ(file.kind, StoredFile::Kind::kState);
    EXPECT_EQ(file.iteration, 70);
    EXPECT_EQ(file.current_step, 3);
    EXPECT_EQ(file.model_path, "gone.caffemodel");
    EXPECT_TRUE(file.has_seed);
    EXPECT_EQ(file.seed, 9u);
    ASSERT_EQ(file.histories.size(), 2u);
    EXPECT_EQ(file.histories[0].arrays[0].values.mean(), 1);
    EXPECT_EQ(file.histories[1].solver, 1);
    EXPECT_EQ(file.histories[1].arrays[0].values.max(), 4);
    const std::string text = StoredFileText(file);
    EXPECT_CONTAINS(text, "iteration 70, step 3, weights in gone.caffemodel");
    EXPECT_CONTAINS(text, "data: layer 'data': batch 12 of 64 records");
    EXPECT_CONTAINS(StoredFileJson(file), "\"iteration\":70,\"current_step\":3");
  }
}

TEST(StoredFile, ReadsHdf5Models) {
  TempDir folder;
  SaveHdf5Model(folder / "model", Model());
  const StoredFile file = ReadStoredFile(folder / "model");
  EXPECT_TRUE(file.is_hdf5);
  EXPECT_EQ(file.kind, StoredFile::Kind::kModel);
  EXPECT_EQ(file.layers[0].name, "ip");
  EXPECT_EQ(file.layers[0].blobs[0].values.max(), 6);
  EXPECT_CONTAINS(StoredFileText(file), "caffemodel (HDF5), 6 values");
}

TEST(StoredFile, ReadsMeans) {
  caffe::BlobProto mean;
  mean.set_num(1);
  mean.set_channels(1);
  mean.set_height(1);
  mean.set_width(3);
  for (const float value : {1.0f, 2.0f, 6.0f}) mean.add_data(value);
  TempDir folder;
  SaveBinary(folder / "mean", mean);
  const StoredFile file = ReadStoredFile(folder / "mean");
  EXPECT_EQ(file.kind, StoredFile::Kind::kMean);
  EXPECT_EQ(file.mean.shape, (Shape{1, 1, 1, 3}));
  EXPECT_EQ(file.mean.values.mean(), 3);
}

TEST(StoredFile, NamesTheEarlierFormatOfOldModels) {
  caffe::NetParameter model;
  caffe::V1LayerParameter* layer = model.add_layers();
  layer->set_name("ip");
  layer->set_type(caffe::V1LayerParameter::INNER_PRODUCT);
  SetBlob({1, 1, 1, 2}, {1, 2}, layer->add_blobs());
  TempDir folder;
  SaveBinary(folder / "old", model);
  const StoredFile file = ReadStoredFile(folder / "old");
  EXPECT_EQ(file.layers[0].type, "InnerProduct");
  EXPECT_CONTAINS(StoredFileText(file), "in an earlier format (V1 layers)");
}

TEST(StoredFile, RefusesOtherFilesInOneLine) {
  TempDir folder;
  WriteFile(folder / "text", "no such file of weights, but some text");
  WriteFile(folder / "empty", "");
  const auto error = [&](const char* name) {
    return ErrorOf([&] { ReadStoredFile(folder / name); });
  };
  EXPECT_CONTAINS(error("text"), folder / "text: ");
  EXPECT_CONTAINS(error("empty"), folder / "empty: ");
  EXPECT_CONTAINS(error("missing"), folder / "missing: No such file");
}

TEST(ValueStats, KeepsSmallDifferencesOfLargeValues) {
  ValueStats values;
  for (const double value : {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16}) values.Add(value);
  EXPECT_DOUBLE_EQ(values.mean(), 1e9 + 10);
  EXPECT_DOUBLE_EQ(values.std(), std::sqrt(22.5));
}

}  // namespace
}  // namespace millrace::test
