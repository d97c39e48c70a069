// HDF5 files as data and as output. Files are written and read with the library itself.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "base/files/file.h"
#include "data/hdf5/hdf5_source.h"
#include "data/hdf5/hdf5_writer.h"
#include "test/data/layer_instance.h"
#include "test/support/fake_device.h"

namespace millrace {
namespace {

using test::LayerInstance;
using Floats = std::vector<float>;

struct Array {
  std::string name;
  std::vector<hsize_t> dims;
  Floats values;
  hid_t type = H5T_NATIVE_FLOAT;  // in the file
};

void WriteHdf5(const std::string& path, const std::vector<Array>& arrays) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  for (const Array& array : arrays) {
    const hid_t space = H5Screate_simple(array.dims.size(), array.dims.data(), nullptr);
    const hid_t set = H5Dcreate2(file, array.name.c_str(), array.type, space, H5P_DEFAULT,
                                 H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.values.data());
    H5Dclose(set);
    H5Sclose(space);
  }
  H5Fclose(file);
}

Array ReadHdf5(const std::string& path, const std::string& name) {
  Array array{name, std::vector<hsize_t>(8), {}};
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t set = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
  const hid_t space = H5Dget_space(set);
  array.dims.resize(H5Sget_simple_extent_dims(space, array.dims.data(), nullptr));
  array.values.resize(H5Sget_simple_extent_npoints(space));
  H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.values.data());
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(file);
  return array;
}

Floats Numbers(size_t count, float first) {
  Floats values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// Files a, b and c with 3, 1 and 4 rows: row r of all has 6 values from 10 r on, and label r.
class Hdf5Test : public testing::Test {
 protected:
  Hdf5Test() {
    float row = 0;
    for (const auto& [name, rows] : std::map<std::string, int>{{"a", 3}, {"b", 1}, {"c", 4}}) {
      Floats values, labels;
      for (int i = 0; i < rows; ++i, ++row) {
        for (const float value : Numbers(6, 10 * row)) values.push_back(value);
        labels.push_back(row);
      }
      const auto count = static_cast<hsize_t>(rows);
      WriteHdf5(folder_ / name + ".h5", {{"label", {count}, labels, H5T_NATIVE_INT},
                                         {"other", {count, 2}, Floats(2 * count, -1)},
                                         {"data", {count, 2, 3}, values, H5T_NATIVE_DOUBLE}});
    }
    // Relative to the list.
    test::WriteFile(folder_ / "list.txt", "a.h5\nb.h5 c.h5\n");
  }

  caffe::LayerParameter Param(const std::string& more = "") const {
    return test::LayerOf("type: 'HDF5Data' top: 'data' top: 'label' hdf5_data_param { source: '" +
                         folder_ / "list.txt' batch_size: 3 " + more + " }");
  }

  test::TempDir folder_;
};

TEST_F(Hdf5Test, GivesRowsInOrderAcrossFilesForAnyTops) {
  DataService service{DataOptions()};
  LayerInstance layer(Param(), &service);
  EXPECT_EQ(layer.top(0).shape(), Shape({3, 2, 3}));
  EXPECT_EQ(layer.top(1).shape(), Shape({3}));
  for (int pass = 0; pass < 7; ++pass) {
    layer.Forward();
    const Floats data = layer.Values(0), label = layer.Values(1);
    for (int n = 0; n < 3; ++n) {
      const auto row = static_cast<float>((pass * 3 + n) % 8);
      EXPECT_EQ(label[n], row);
      EXPECT_EQ(Floats(data.begin() + n * 6, data.begin() + n * 6 + 6), Numbers(6, 10 * row));
    }
  }
  caffe::LayerParameter param = Param();
  param.clear_top();
  for (const char* top : {"other", "data", "label", "label"}) param.add_top(top);
  param.set_name("four");
  DataService other{DataOptions()};
  LayerInstance four(param, &other);
  four.Forward();
  EXPECT_EQ(four.Values(0), Floats(6, -1));
  EXPECT_EQ(four.Values(3), Floats({0, 1, 2}));
}

TEST_F(Hdf5Test, ShufflesFilesAndTheRowsOfEachAndResumesExactly) {
  caffe::LayerParameter param = Param("shuffle: true");
  param.mutable_hdf5_data_param()->set_batch_size(2);
  DataOptions options;
  options.seed = test::Seed();
  std::set<Floats> epochs;
  std::set<float> first_files;
  Floats all;
  caffe::StreamPosition position;
  {
    DataService service(options);
    LayerInstance layer(param, &service);
    for (int pass = 0; pass < 40; ++pass) {
      for (const float label : layer.Next(1)) all.push_back(label);
      layer.layer().EndIteration();
      if (pass == 4) position = service.Positions("train")[0];
    }
  }
  const auto file_of = [](float row) { return row < 3 ? 0.0f : row < 4 ? 1.0f : 2.0f; };
  for (int epoch = 0; epoch < 10; ++epoch) {
    const Floats rows(all.begin() + epoch * 8, all.begin() + epoch * 8 + 8);
    EXPECT_EQ(std::set<float>(rows.begin(), rows.end()).size(), 8u);
    int changes = 0;
    for (int i = 1; i < 8; ++i) changes += file_of(rows[i]) != file_of(rows[i - 1]);
    EXPECT_EQ(changes, 2);  // a file's rows stay together
    epochs.insert(rows);
    first_files.insert(file_of(rows[0]));
  }
  EXPECT_GT(epochs.size(), 7u);
  EXPECT_GT(first_files.size(), 1u);
  DataService service(options);
  service.Restore("train", {position});
  LayerInstance layer(param, &service);
  EXPECT_EQ(layer.Next(1), Floats(all.begin() + 10, all.begin() + 12));
}

TEST_F(Hdf5Test, DividesTheRowsAmongShardsAlsoWhenShuffled) {
  for (const char* more : {"", "shuffle: true"}) {
    std::map<float, int> seen;
    for (uint64_t shard = 0; shard < 2; ++shard) {
      DataOptions options;
      options.shard_index = shard;
      options.shard_count = 2;
      DataService service(options);
      caffe::LayerParameter param = Param(more);
      param.mutable_hdf5_data_param()->set_batch_size(4);
      LayerInstance layer(param, &service);
      for (const float label : layer.Next(1)) ++seen[label];
    }
    EXPECT_EQ(seen.size(), 8u) << more;
  }
}

TEST_F(Hdf5Test, CopiesItsBatchesToADevice) {
  test::FakeDevice device({.mode = test::FakeMode::kThread});
  DataService service{DataOptions()};
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  LayerInstance layer(Param(), &service, caffe::TRAIN, *queue);
  for (int pass = 0; pass < 4; ++pass) {
    layer.Forward();
    queue->Synchronize();
    EXPECT_EQ(layer.Values(0)[6], static_cast<float>(10 * ((pass * 3 + 1) % 8)));
  }
}

TEST_F(Hdf5Test, SaysWhatIsWrongWithListsAndFiles) {
  const std::string at = "hdf5_data_param.";
  const auto error = [&](const std::string& list) {
    test::WriteFile(folder_ / "list.txt", list);
    return test::SetUpError(Param());
  };
  EXPECT_EQ(error("a.h5"), "");
  EXPECT_EQ(error(" \n"), at + "source: " + folder_ / "list.txt: lists no files");
  EXPECT_CONTAINS(error("a.h5 none.h5"), at + "source: none.h5: No such file");
  test::WriteFile(folder_ / "text.h5", "text");
  EXPECT_CONTAINS(error("text.h5"), "text.h5: is not an HDF5 file, or is damaged");
  const std::string whole = ReadFile(folder_ / "c.h5");
  test::WriteFile(folder_ / "cut.h5", whole.substr(0, whole.size() - 100));
  EXPECT_CONTAINS(error("cut.h5"), "cut.h5: ");
  WriteHdf5(folder_ / "d.h5", {{"data", {2, 2, 3}, Numbers(12, 0)}});
  EXPECT_CONTAINS(error("d.h5"), folder_ / "d.h5: holds no dataset 'label'");
  WriteHdf5(folder_ / "e.h5", {{"data", {2, 2, 3}, Numbers(12, 0)}, {"label", {3}, Floats(3)}});
  EXPECT_CONTAINS(error("e.h5"), "e.h5: dataset 'label' has 3 rows, expected 2 as 'data'");
  WriteHdf5(folder_ / "f.h5", {{"data", {2, 3, 2}, Numbers(12, 0)}, {"label", {2}, Floats(2)}});
  EXPECT_CONTAINS(error("a.h5 f.h5"),
                  "f.h5: has rows of 3 2 (6), (1), expected 2 3 (6), (1) as in");
  WriteHdf5(folder_ / "g.h5", {{"data", {0, 3}, {}}, {"label", {0}, {}}});
  EXPECT_CONTAINS(error("g.h5"), "g.h5: dataset 'data': axis 0 has the length 0");
  WriteHdf5(folder_ / "h.h5", {{"data", {}, Floats(1)}, {"label", {1}, Floats(1)}});
  EXPECT_CONTAINS(error("h.h5"), "h.h5: dataset 'data': expected an array of rows");
  caffe::LayerParameter param = Param();
  param.mutable_hdf5_data_param()->clear_batch_size();
  EXPECT_CONTAINS(test::SetUpError(param), at + "batch_size: is missing");
  param = Param();
  param.mutable_hdf5_data_param()->clear_source();
  EXPECT_CONTAINS(test::SetUpError(param), at + "source: is missing");
}

// Chunks that were never written take no room in the file.
TEST_F(Hdf5Test, SaysThatAFileClaimsMoreValuesThanMemoryHolds) {
  const std::string path = folder_ / "large.h5";
  const hsize_t dims[] = {hsize_t{1} << 31, hsize_t{1} << 31}, chunk[] = {2, 2};
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(2, dims, nullptr), plan = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(plan, 2, chunk);
  H5Dclose(H5Dcreate2(file, "data", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, plan, H5P_DEFAULT));
  H5Pclose(plan), H5Sclose(space), H5Fclose(file);
  test::WriteFile(folder_ / "list.txt", "large.h5");
  Hdf5Source source(folder_ / "list.txt", {"data"});
  EXPECT_EQ(test::ErrorOf([&] { source.MakeReader(false)->At(0); }),
            path +
                ": has 2147483648 rows of 2147483648 values, for which there is not enough "
                "memory");
}

// As h5py's LZF, which its own copy of the library has.
TEST_F(Hdf5Test, NamesAFilterThatTheLibraryDoesNotHave) {
  constexpr H5Z_filter_t kLzf = 32000;
  const H5Z_class2_t filter = {
      H5Z_CLASS_T_VERS,
      kLzf,
      1,
      1,
      "lzf",
      nullptr,
      nullptr,
      [](unsigned, size_t, const unsigned*, size_t bytes, size_t*, void**) { return bytes; }};
  ASSERT_GE(H5Zregister(&filter), 0);
  const std::string path = folder_ / "lzf.h5";
  const hsize_t dims[] = {2, 2};
  const float values[] = {1, 2, 3, 4};
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(2, dims, nullptr), plan = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(plan, 2, dims);
  H5Pset_filter(plan, kLzf, H5Z_FLAG_MANDATORY, 0, nullptr);
  const hid_t set =
      H5Dcreate2(file, "data", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, plan, H5P_DEFAULT);
  EXPECT_GE(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
  H5Dclose(set), H5Pclose(plan), H5Sclose(space), H5Fclose(file);
  ASSERT_GE(H5Zunregister(kLzf), 0);
  test::WriteFile(folder_ / "list.txt", "lzf.h5");
  Hdf5Source source(folder_ / "list.txt", {"data"});
  EXPECT_EQ(test::ErrorOf([&] { source.MakeReader(false)->At(0); }),
            path +
                ": dataset 'data' is stored with the filter 'lzf' (number 32000), which the HDF5 "
                "library does not have; store it with gzip, or uncompressed");
}

TEST_F(Hdf5Test, FailsIfAFileChangesWhileInUse) {
  Hdf5Source source(folder_ / "list.txt", {"data"});
  WriteHdf5(folder_ / "c.h5", {{"data", {5, 2, 3}, Numbers(30, 0)}});
  const auto reader = source.MakeReader(false);
  EXPECT_NO_THROW(reader->At(3));
  EXPECT_CONTAINS(test::ErrorOf([&] { reader->At(4); }), "c.h5: has changed while it was in use");
  EXPECT_NO_THROW(reader->At(0));
}

// ---- Output ----

class Output {
 public:
  Output(const std::string& file, const Shape& data, const Shape& label, Queue& queue = HostQueue())
      : data_(data, queue.device().memory()), label_(label, queue.device().memory()) {
    LayerContext context;
    context.device = &queue.device();
    context.queue = &queue;
    layer_ = LayerRegistry::Get().Create(
        test::LayerOf("type: 'HDF5Output' hdf5_output_param { file_name: '" + file + "' }"),
        context);
    layer_->SetUp({&data_, &label_}, {});
    layer_->Reshape({&data_, &label_}, {});
  }
  void Write(float first) {
    data_.CopyDataFromHost(Numbers(data_.count(), first).data());
    label_.CopyDataFromHost(Numbers(label_.count(), first + 0.5f).data());
    layer_->Forward({&data_, &label_}, {});
  }

 private:
  Blob data_, label_;
  std::unique_ptr<Layer> layer_;
};

TEST_F(Hdf5Test, OutputAppendsBothBottomsWithFourAxes) {
  test::FakeDevice device;
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  for (Queue* each : {static_cast<Queue*>(&HostQueue()), queue.get()}) {
    {
      Output output(folder_ / "out.h5", {2, 3}, {2}, *each);
      output.Write(0);
      output.Write(100);
      // Complete on disk while the layer exists.
      std::filesystem::copy_file(folder_ / "out.h5", folder_ / "copy.h5",
                                 std::filesystem::copy_options::overwrite_existing);
    }
    for (const char* name : {"out.h5", "copy.h5"}) {
      const Array data = ReadHdf5(folder_ / name, "data"),
                  label = ReadHdf5(folder_ / name, "label");
      EXPECT_EQ(data.dims, (std::vector<hsize_t>{4, 3, 1, 1}));
      EXPECT_EQ(label.dims, (std::vector<hsize_t>{4, 1, 1, 1}));
      EXPECT_EQ(data.values, Floats({0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105}));
      EXPECT_EQ(label.values, Floats({0.5, 1.5, 100.5, 101.5}));
    }
  }
  // The next layer empties the file; a Data layer reads it.
  { Output(folder_ / "out.h5", {2, 2, 3}, {2}).Write(7); }
  test::WriteFile(folder_ / "list.txt", "out.h5");
  DataService service{DataOptions()};
  LayerInstance layer(Param(), &service);
  EXPECT_EQ(layer.top(0).shape(), Shape({3, 2, 3, 1}));
  EXPECT_EQ(layer.Next(1), Floats({7.5, 8.5, 7.5}));
}

TEST_F(Hdf5Test, OutputOfSeveralSolversGoesToOneFileRowsTogether) {
  {
    Output first(folder_ / "out.h5", {2, 1}, {2}), second(folder_ / "./out.h5", {2, 1}, {2});
    std::thread other([&] {
      for (int i = 0; i < 50; ++i) second.Write(static_cast<float>(1000 + i));
    });
    for (int i = 0; i < 50; ++i) first.Write(static_cast<float>(i));
    other.join();
  }
  const Array data = ReadHdf5(folder_ / "out.h5", "data"),
              label = ReadHdf5(folder_ / "out.h5", "label");
  ASSERT_EQ(data.values.size(), 200u);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(label.values[i], data.values[i] + 0.5f);
  EXPECT_EQ(std::set<float>(data.values.begin(), data.values.end()).size(), 102u);
}

TEST_F(Hdf5Test, OutputSaysWhatIsWrong) {
  EXPECT_CONTAINS(test::ErrorOf([&] { Output(folder_ / "none/out.h5", {2}, {2}); }),
                  "none/out.h5: cannot be written as an HDF5 file");
  EXPECT_CONTAINS(test::ErrorOf([&] { Output("", {2}, {2}); }), "is missing");
  EXPECT_CONTAINS(test::ErrorOf([&] {
                    Output(folder_ / "o.h5", {2, 1}, {3});
                  }),
                  "has 3 rows, expected 2 as bottom[0]");
  EXPECT_CONTAINS(test::ErrorOf([&] {
                    Output(folder_ / "o.h5", {2, 1, 1, 1, 1}, {2});
                  }),
                  "has 5 axes, expected 1 to 4");
  Output wide(folder_ / "o.h5", {2, 3}, {2}), narrow(folder_ / "o.h5", {2, 2}, {2});
  wide.Write(0);
  EXPECT_CONTAINS(test::ErrorOf([&] { narrow.Write(0); }), "do not fit those of");
}

}  // namespace
}  // namespace millrace
