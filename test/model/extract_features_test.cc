// Blobs of a net in databases and HDF5 files.
#include "model/extract_features.h"

#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/files/hdf5_file.h"
#include "data/database.h"
#include "model/loaded_net.h"
#include "nn/plain_values.h"
#include "proto/parse.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// Two images of 3 channels; y doubles them, "deep/z" is a scalar per image.
constexpr char kNet[] = R"(
  layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 1 dim: 4 } } }
  layer { name: 'double' type: 'Power' bottom: 'x' top: 'y' power_param { scale: 2 } }
  layer { name: 'sum' type: 'Reduction' bottom: 'x' top: 'deep/z' reduction_param { axis: 1 } }
  layer { name: 'all' type: 'Reduction' bottom: 'y' top: 'total' }
  layer { name: 'five' type: 'Reshape' bottom: 'x' top: 'five'
          reshape_param { shape { dim: 2 dim: 3 dim: 2 dim: 2 dim: 1 } } })";

caffe::Datum DatumAt(DataSource& source, uint64_t index) {
  const std::unique_ptr<RecordReader> reader = source.MakeReader(true);
  const RecordView record = reader->At(index);
  caffe::Datum datum;
  EXPECT_TRUE(datum.ParseFromArray(record.value.data(), static_cast<int>(record.value.size())));
  return datum;
}

class Features : public testing::Test {
 protected:
  Features() {
    caffe::NetParameter param;
    SourceMap source;
    ParseText(kNet, "net", &param, &source);
    loaded_ = std::make_unique<LoadedNet>(param, source, caffe::NetState(), "");
    std::vector<float> values(24);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    loaded_->net().FindBlob("x")->CopyDataFromHost(values.data());
  }
  std::vector<int64_t> Extract(const std::vector<FeatureOutput>& outputs,
                               const std::string& backend, int batches) {
    return ExtractFeatures(&loaded_->net(), outputs, backend, batches);
  }

  TempDir folder_;
  std::unique_ptr<LoadedNet> loaded_;
};

TEST_F(Features, AreDatumsOfFloatsByNumber) {
  for (const char* backend : {"lmdb", "leveldb"}) {
    const std::string path = folder_ / backend;
    EXPECT_EQ(Extract({{"y", path}}, backend, 3), (std::vector<int64_t>{6}));
    const std::shared_ptr<DataSource> source = OpenDatabase(path);
    ASSERT_EQ(source->size(), 6u);
    const std::unique_ptr<RecordReader> reader = source->MakeReader(true);
    EXPECT_EQ(std::string(reader->At(3).key), "0000000003");
    const caffe::Datum datum = DatumAt(*source, 3);
    EXPECT_EQ(datum.channels(), 3);
    EXPECT_EQ(datum.height(), 1);
    EXPECT_EQ(datum.width(), 4);
    EXPECT_FALSE(datum.has_label());
    EXPECT_FALSE(datum.has_data());
    ASSERT_EQ(datum.float_data_size(), 12);
    EXPECT_EQ(datum.float_data(0), 24);  // the second image of the second batch
    EXPECT_EQ(datum.float_data(11), 46);
  }
}

TEST_F(Features, AxesThatABlobLacksHaveSizeOne) {
  Extract({{"deep/z", folder_ / "z"}, {"total", folder_ / "total"}}, "lmdb", 1);
  const std::shared_ptr<DataSource> z = OpenDatabase(folder_ / "z");
  const std::shared_ptr<DataSource> total = OpenDatabase(folder_ / "total");
  EXPECT_EQ(z->size(), 2u);
  EXPECT_EQ(total->size(), 1u);
  const caffe::Datum datum = DatumAt(*z, 1);
  EXPECT_EQ(datum.channels() * datum.height() * datum.width(), 1);
  EXPECT_EQ(datum.float_data(0), 12 * 17.5f);
}

TEST_F(Features, KeepTheirShapesInHdf5) {
  EXPECT_EQ(Extract({{"y", folder_ / "f.h5"},
                     {"deep/z", folder_ / "f.h5"},
                     {"five", folder_ / "f.h5"},
                     {"total", folder_ / "f.h5"}},
                    "hdf5", 2),
            (std::vector<int64_t>{4, 4, 4, 2}));
  const Hdf5FileReader file(folder_ / "f.h5");
  EXPECT_EQ(file.ShapeOf("y"), (std::vector<int64_t>{4, 3, 1, 4}));
  EXPECT_EQ(file.ShapeOf("deep/z"), (std::vector<int64_t>{4}));
  EXPECT_EQ(file.ShapeOf("five"), (std::vector<int64_t>{4, 3, 2, 2, 1}));
  EXPECT_EQ(file.ShapeOf("total"), (std::vector<int64_t>{2}));
  EXPECT_EQ(file.Floats("y")[47], 46);
}

TEST_F(Features, RefuseWhatCannotBeStored) {
  EXPECT_CONTAINS(ErrorOf([&] {
                    Extract({{"w", folder_ / "w"}}, "lmdb", 1);
                  }),
                  "the net has no blob 'w'");
  EXPECT_CONTAINS(ErrorOf([&] {
                    Extract({{"y", folder_ / "w"}}, "sqlite", 1);
                  }),
                  "--backend=sqlite: expected lmdb, leveldb or hdf5");
  EXPECT_CONTAINS(ErrorOf([&] {
                    Extract({{"five", folder_ / "w"}}, "lmdb", 1);
                  }),
                  "blob 'five' has the shape 2 3 2 2 1 (24), expected at most 4 axes");
  EXPECT_CONTAINS(ErrorOf([&] {
                    Extract({{"x", folder_ / "w"}, {"y", folder_ / "w"}}, "lmdb", 1);
                  }),
                  "given for two blobs");
  EXPECT_FALSE(FileExists(folder_ / "w"));
  WriteFile(folder_ / "there", "");
  EXPECT_CONTAINS(ErrorOf([&] {
                    Extract({{"y", folder_ / "there"}}, "lmdb", 1);
                  }),
                  "exists already");
}

TEST(FeaturePath, HasThePrefixAndTheBlob) {
  EXPECT_EQ(FeaturePath("a/b", "fc7", "lmdb"), "a/b_fc7");
  EXPECT_EQ(FeaturePath("a/b", "inception_3a/1x1", "leveldb"), "a/b_inception_3a_1x1");
  EXPECT_EQ(FeaturePath("a/b", "fc7", "hdf5"), "a/b.h5");
  EXPECT_EQ(FeaturePath("a/b.h5", "fc7", "hdf5"), "a/b.h5");
}

}  // namespace
}  // namespace millrace::test
