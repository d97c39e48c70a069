#include "base/files/hdf5_file.h"

#include <hdf5.h>

#include <thread>

#include "base/files/file.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::ErrorOf;

TEST(Hdf5File, ComesBackAsItWasWritten) {
  test::TempDir folder;
  const std::string path = folder / "a.h5";
  const float values[] = {1, -2.5f, 3, 4, 5, 6};
  Hdf5FileWriter writer(path);
  writer.AddGroup("empty");
  writer.AddFloats("deep/in/floats", {2, 3}, values);
  writer.AddFloats("scalar", {}, values + 1);
  writer.AddFloats("none", {0, 4}, nullptr);
  writer.AddInteger("int", -7);
  writer.AddIntegers("ints", {1, int64_t{1} << 40});
  writer.AddText("text", "a\nb");
  writer.AddText("blank", "");
  EXPECT_FALSE(FileExists(path));
  writer.Commit();

  EXPECT_TRUE(IsHdf5(path));
  const Hdf5FileReader file(path);
  EXPECT_TRUE(file.HasGroup("empty") && file.HasGroup("deep/in") && !file.HasGroup("int"));
  EXPECT_TRUE(file.HasDataSet("int") && !file.HasDataSet("empty") && !file.HasDataSet("no/where"));
  EXPECT_EQ(file.Members(""), (std::vector<std::string>{"blank", "deep", "empty", "int", "ints",
                                                        "none", "scalar", "text"}));
  EXPECT_TRUE(file.Members("empty").empty());
  EXPECT_EQ(file.ShapeOf("deep/in/floats"), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file.Floats("deep/in/floats"), std::vector<float>(values, values + 6));
  EXPECT_TRUE(file.ShapeOf("scalar").empty());
  EXPECT_EQ(file.Floats("scalar"), std::vector<float>{-2.5f});
  EXPECT_TRUE(file.Floats("none").empty());
  EXPECT_EQ(file.Integer("int"), -7);
  EXPECT_EQ(file.Floats("int"), std::vector<float>{-7});
  EXPECT_EQ(file.Integers("ints"), (std::vector<int64_t>{1, int64_t{1} << 40}));
  EXPECT_EQ(file.Text("text"), "a\nb");
  EXPECT_EQ(file.Text("blank"), "");
}

// As h5py and others write: doubles, compressed in chunks.
TEST(Hdf5File, ReadsNumbersOfOtherTypesAndLayouts) {
  test::TempDir folder;
  const std::string path = folder / "a.h5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t dims[] = {100, 100}, chunk[] = {10, 100};
  const hid_t space = H5Screate_simple(2, dims, nullptr), plan = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(plan, 2, chunk);
  H5Pset_deflate(plan, 9);
  const hid_t set = H5Dcreate2(file, "x", H5T_IEEE_F64BE, space, H5P_DEFAULT, plan, H5P_DEFAULT);
  const std::vector<double> values(10000, 0.25);
  H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  H5Dclose(set), H5Pclose(plan), H5Sclose(space), H5Fclose(file);
  ASSERT_LT(ReadFile(path).size(), 40000u);
  EXPECT_EQ(Hdf5FileReader(path).Floats("x"), std::vector<float>(10000, 0.25f));
}

TEST(Hdf5File, NamesWhatItDoesNotHold) {
  test::TempDir folder;
  const std::string path = folder / "a.h5";
  {
    Hdf5FileWriter writer(path);
    writer.AddText("t", "x");
    writer.AddIntegers("two", {1, 2});
    EXPECT_EQ(ErrorOf([&] { writer.AddInteger("t", 1); }),
              path + ": cannot hold a data set t: the name is taken");
    EXPECT_EQ(ErrorOf([&] { writer.AddGroup("t"); }),
              path + ": cannot hold a group t: the name is taken");
    writer.Commit();
  }
  const Hdf5FileReader file(path);
  EXPECT_EQ(ErrorOf([&] { file.Floats("a/b"); }), path + ": holds no data set a/b");
  EXPECT_EQ(ErrorOf([&] { file.Members("a"); }), path + ": holds no group a");
  EXPECT_EQ(ErrorOf([&] { file.Floats("t"); }), path + ": t: holds no numbers");
  EXPECT_EQ(ErrorOf([&] { file.Text("two"); }), path + ": two: holds no text of fixed length");
  EXPECT_EQ(ErrorOf([&] { file.Integer("two"); }), path + ": two: holds 2 numbers, expected 1");
}

TEST(Hdf5File, RefusesFilesOfOtherKindsWithOneLine) {
  test::TempDir folder;
  test::WriteFile(folder / "empty", "");
  test::WriteFile(folder / "text", "net: 'x'\n");
  EXPECT_EQ(ErrorOf([&] { Hdf5FileReader(folder / "gone"); }),
            (folder / "gone") + ": No such file or directory");
  EXPECT_EQ(ErrorOf([&] { Hdf5FileReader{folder.path()}; }), folder.path() + ": Is a directory");
  EXPECT_EQ(ErrorOf([&] { Hdf5FileReader(folder / "empty"); }),
            (folder / "empty") + ": is empty, expected an HDF5 file");
  EXPECT_EQ(ErrorOf([&] { Hdf5FileReader(folder / "text"); }),
            (folder / "text") + ": truncated or not an HDF5 file");
  for (const std::string name : {"gone", "empty", "text"}) EXPECT_FALSE(IsHdf5(folder / name));
}

TEST(Hdf5File, IsReplacedAtomically) {
  test::TempDir folder;
  const std::string path = folder / "a.h5";
  test::WriteFile(path, "old");
  { Hdf5FileWriter abandoned(path); }
  EXPECT_EQ(ReadFile(path), "old");
  EXPECT_CONTAINS(ErrorOf([&] { Hdf5FileWriter(folder / "no/a.h5").Commit(); }),
                  (folder / "no/a.h5") + ": cannot be written: No such file or directory");
}

TEST(Hdf5File, IsWrittenAndReadByThreadsAtTheSameTime) {
  test::TempDir folder;
  const auto work = [&](int thread) {
    for (int i = 0; i < 20; ++i) {
      const std::string path = folder / StrCat(thread, ".h5");
      const std::vector<float> values(1000, static_cast<float>(i + thread));
      Hdf5FileWriter writer(path);
      writer.AddFloats("x", {1000}, values.data());
      writer.Commit();
      EXPECT_EQ(Hdf5FileReader(path).Floats("x"), values);
      EXPECT_NE(ErrorOf([&] { Hdf5FileReader(path).Floats("y"); }), "");
    }
  };
  std::thread one(work, 1), other(work, 2);
  one.join();
  other.join();
}

}  // namespace
}  // namespace millrace
