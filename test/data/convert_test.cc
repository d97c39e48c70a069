#include "data/convert.h"

#include <signal.h>
#include <sys/resource.h>
#include <zlib.h>

#include <filesystem>

#include "base/files/file.h"
#include "data/lmdb_database.h"
#include "proto/parse.h"
#include "test/data/test_db.h"
#include "test/support/encode_images.h"
#include "test/support/support.h"

namespace millrace {
namespace {

std::string BigEndian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

std::string IdxImages(uint32_t count, uint32_t rows, uint32_t columns) {
  std::string bytes = BigEndian(0x803) + BigEndian(count) + BigEndian(rows) + BigEndian(columns);
  for (uint32_t i = 0; i < count * rows * columns; ++i) bytes += static_cast<char>(i * 13);
  return bytes;
}

std::string IdxLabels(uint32_t count) {
  std::string bytes = BigEndian(0x801) + BigEndian(count);
  for (uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 10);
  return bytes;
}

void WriteGzip(const std::string& path, const std::string& content) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, content.data(), content.size());
  gzclose(file);
}

std::set<std::string> Names(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename());
  }
  return names;
}

caffe::Datum DatumAt(const std::string& database, uint64_t index, std::string* key = nullptr) {
  const auto open = LmdbDatabase::Open(database);
  LmdbDatabase::Cursor cursor(open, false);
  const RecordView record = cursor.At(index);
  if (key) *key = record.key;
  caffe::Datum datum;
  EXPECT_TRUE(datum.ParseFromArray(record.value.data(), static_cast<int>(record.value.size())));
  return datum;
}

class ConvertTest : public testing::Test {
 protected:
  // Error of converting these files. Expects all written files to be removed.
  std::string MnistError(const std::string& images, const std::string& labels) {
    test::WriteFile(folder_ / "images", images);
    test::WriteFile(folder_ / "labels", labels);
    const auto before = Names(folder_.path());
    const std::string error = test::ErrorOf(
        [&] { ConvertMnist(folder_ / "images", folder_ / "labels", folder_ / "db"); });
    EXPECT_EQ(Names(folder_.path()), before);
    EXPECT_EQ(error.find('\n'), std::string::npos);
    return error;
  }

  // Writes six CIFAR files of `records` records each.
  void WriteCifar(int records) {
    MakeDirectories(folder_ / "in");
    MakeDirectories(folder_ / "out");
    for (int file = 0; file < 6; ++file) {
      std::string content;
      for (int i = 0; i < records; ++i) {
        content += static_cast<char>(file);
        content += std::string(3072, static_cast<char>(10 * file + i));
      }
      test::WriteFile(CifarFile(file), content);
    }
  }
  std::string CifarFile(int file) const {
    return folder_ / (file < 5 ? StrCat("in/data_batch_", file + 1, ".bin") : "in/test_batch.bin");
  }
  std::string CifarError(uint64_t records) {
    const std::string error =
        test::ErrorOf([&] { ConvertCifar(folder_ / "in", folder_ / "out", records); });
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out"));
    return error;
  }

  test::TempDir folder_;
};

TEST_F(ConvertTest, TurnsIdxFilesPlainOrGzippedIntoADatabase) {
  const std::string images = IdxImages(25, 3, 4), labels = IdxLabels(25);
  test::WriteFile(folder_ / "images", images);
  test::WriteFile(folder_ / "labels", labels);
  WriteGzip(folder_ / "images.gz", images);
  WriteGzip(folder_ / "labels.gz", labels);
  EXPECT_EQ(ConvertMnist(folder_ / "images", folder_ / "labels", folder_ / "plain"), 25u);
  EXPECT_EQ(ConvertMnist(folder_ / "images.gz", folder_ / "labels.gz", folder_ / "unpacked"), 25u);
  EXPECT_TRUE(ReadFile(folder_ / "plain/data.mdb") == ReadFile(folder_ / "unpacked/data.mdb"));
  EXPECT_EQ(Names(folder_ / "plain"), std::set<std::string>({"data.mdb"}));
  EXPECT_EQ(LmdbDatabase::Open(folder_ / "plain")->size(), 25u);
  std::string key;
  const caffe::Datum datum = DatumAt(folder_ / "plain", 17, &key);
  EXPECT_EQ(key, "00000017");
  EXPECT_EQ(datum.channels(), 1);
  EXPECT_EQ(datum.height(), 3);
  EXPECT_EQ(datum.width(), 4);
  EXPECT_EQ(datum.label(), 7);
  EXPECT_EQ(datum.data(), images.substr(16 + 17 * 12, 12));
}

TEST_F(ConvertTest, ReadsTheFashionMnistFilesThatDebianShips) {
  const std::string source = "/usr/share/datasets/fashion-mnist/t10k-";
  EXPECT_EQ(ConvertMnist(source + "images-idx3-ubyte.gz", source + "labels-idx1-ubyte.gz",
                         folder_ / "db"),
            10000u);
  const caffe::Datum datum = DatumAt(folder_ / "db", 0);
  EXPECT_EQ(datum.height(), 28);
  EXPECT_EQ(datum.width(), 28);
  EXPECT_EQ(datum.label(), 9);  // ankle boot
}

TEST_F(ConvertTest, SaysWhatIsWrongWithIdxFilesAndLeavesNothingBehind) {
  const std::string images = IdxImages(5, 3, 4), labels = IdxLabels(5);
  EXPECT_EQ(
      MnistError(labels, labels),
      folder_ / "images" + ": is not an IDX file of images (it begins with 2049, expected 2051)");
  EXPECT_CONTAINS(MnistError(images, images), "labels: is not an IDX file of labels");
  EXPECT_CONTAINS(MnistError("", labels), "images: is truncated: it ends within its header");
  EXPECT_CONTAINS(MnistError(images.substr(0, 14), labels), "ends within its header");
  EXPECT_CONTAINS(MnistError(images.substr(0, 75), labels), "images: is truncated: it ends within");
  EXPECT_CONTAINS(MnistError(images, labels.substr(0, 12)), "labels: is truncated: it ends within");
  EXPECT_CONTAINS(MnistError(images, IdxLabels(6)), "labels: holds 6 labels, but ");
  EXPECT_CONTAINS(MnistError(images + "x", labels), "images: is longer than its header says");
  EXPECT_CONTAINS(MnistError(images, labels + "x"), "labels: is longer than its header says");
  EXPECT_CONTAINS(MnistError(IdxImages(0, 3, 4), IdxLabels(0)), "0 images of 3 x 4");
  EXPECT_CONTAINS(MnistError(IdxImages(5, 0, 4), labels), "5 images of 0 x 4");
  const std::string header = BigEndian(0x803) + BigEndian(5);
  EXPECT_CONTAINS(MnistError(header + BigEndian(UINT32_MAX) + BigEndian(UINT32_MAX), labels),
                  "5 images of 4294967295 x 4294967295");
  EXPECT_CONTAINS(test::ErrorOf([&] { ConvertMnist("nowhere", folder_ / "labels", "db"); }),
                  "nowhere: No such file or directory");
}

TEST_F(ConvertTest, NoticesTruncatedAndDamagedGzipFiles) {
  WriteGzip(folder_ / "good.gz", IdxImages(100, 28, 28));
  const std::string gz = ReadFile(folder_ / "good.gz");
  EXPECT_CONTAINS(MnistError(gz.substr(0, gz.size() / 2), IdxLabels(100)), "truncated");
  EXPECT_CONTAINS(MnistError(gz.substr(0, gz.size() - 4), IdxLabels(100)), "truncated");
  std::string damaged = gz;
  damaged[damaged.size() - 6] ^= 1;  // in the checksum
  EXPECT_CONTAINS(MnistError(damaged, IdxLabels(100)), "bad gzip data");
}

TEST_F(ConvertTest, RefusesAnOutputThatExistsAndKeepsIt) {
  test::WriteFile(folder_ / "images", IdxImages(5, 3, 4));
  test::WriteFile(folder_ / "labels", IdxLabels(5));
  test::WriteFile(folder_ / "db", "precious");
  EXPECT_CONTAINS(
      test::ErrorOf([&] { ConvertMnist(folder_ / "images", folder_ / "labels", folder_ / "db"); }),
      "exists already");
  EXPECT_EQ(ReadFile(folder_ / "db"), "precious");
}

TEST_F(ConvertTest, LeavesNothingBehindWhenTheDiskIsFull) {
  // A file size limit fails a write like a full disk.
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = signal(SIGXFSZ, SIG_IGN);
  test::WriteFile(folder_ / "images", IdxImages(3000, 28, 28));
  test::WriteFile(folder_ / "labels", IdxLabels(3000));
  const auto names = Names(folder_.path());
  const struct rlimit limit = {100'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string error =
      test::ErrorOf([&] { ConvertMnist(folder_ / "images", folder_ / "labels", folder_ / "db"); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, ignored);
  EXPECT_CONTAINS(error, folder_ / "db" + ": cannot be written: ");
  EXPECT_EQ(Names(folder_.path()), names);
}

TEST_F(ConvertTest, TurnsCifarFilesIntoTwoDatabases) {
  WriteCifar(4);
  EXPECT_EQ(ConvertCifar(folder_ / "in", folder_ / "out", 4), 24u);
  EXPECT_EQ(Names(folder_ / "out"),
            std::set<std::string>({"cifar10_train_lmdb", "cifar10_test_lmdb"}));
  EXPECT_EQ(LmdbDatabase::Open(folder_ / "out/cifar10_train_lmdb")->size(), 20u);
  EXPECT_EQ(LmdbDatabase::Open(folder_ / "out/cifar10_test_lmdb")->size(), 4u);
  std::string key;
  caffe::Datum datum = DatumAt(folder_ / "out/cifar10_train_lmdb", 14, &key);
  EXPECT_EQ(key, "00014");
  EXPECT_EQ(datum.label(), 3);
  EXPECT_EQ(datum.channels(), 3);
  EXPECT_EQ(datum.height(), 32);
  EXPECT_EQ(datum.width(), 32);
  EXPECT_EQ(datum.data(), std::string(3072, 32));
  EXPECT_EQ(DatumAt(folder_ / "out/cifar10_test_lmdb", 0).label(), 5);
}

TEST_F(ConvertTest, SaysWhatIsWrongWithCifarFilesAndLeavesNothingBehind) {
  WriteCifar(4);
  EXPECT_CONTAINS(CifarError(5), CifarFile(0) + ": is truncated: it ends within 5 records");
  EXPECT_CONTAINS(CifarError(3), CifarFile(0) + ": is longer than 3 records of 3073 bytes");
  const std::string good = ReadFile(CifarFile(5));
  test::WriteFile(CifarFile(5), good.substr(0, good.size() - 1));
  EXPECT_CONTAINS(CifarError(4), CifarFile(5) + ": is truncated");
  test::WriteFile(CifarFile(5), "\x0a" + good.substr(1));
  EXPECT_CONTAINS(CifarError(4), "test_batch.bin: record 0 has label 10, expected 0 to 9");
  std::filesystem::remove(CifarFile(5));
  EXPECT_CONTAINS(CifarError(4), CifarFile(5) + ": No such file");
}

TEST_F(ConvertTest, RefusesToReplaceEitherCifarDatabase) {
  WriteCifar(4);
  MakeDirectories(folder_ / "out/cifar10_test_lmdb");
  EXPECT_CONTAINS(test::ErrorOf([&] { ConvertCifar(folder_ / "in", folder_ / "out", 4); }),
                  "cifar10_test_lmdb: exists already");
  EXPECT_EQ(Names(folder_ / "out"), std::set<std::string>({"cifar10_test_lmdb"}));
}

TEST_F(ConvertTest, ComputesTheMeanImageOfBytesAndFloats) {
  caffe::Datum one = test::ByteDatum(0, 2, 1, 2), two = one, three = one;
  one.set_data(std::string("\x00\x01\xff\x10", 4));
  two.set_data(std::string("\x00\x02\xff\x20", 4));
  three.clear_data();
  for (float value : {3.0f, -3.0f, 255.0f, 0.0f}) three.add_float_data(value);
  test::WriteDb(folder_ / "db", {one, two, three});
  const ImageMean result = ComputeImageMean(folder_ / "db", folder_ / "mean.binaryproto");
  EXPECT_EQ(result.images, 3u);
  EXPECT_EQ(result.channels, std::vector<double>({0.5, 135.5}));
  caffe::BlobProto mean;
  LoadBinary(folder_ / "mean.binaryproto", "a mean", &mean);
  EXPECT_EQ(mean.num(), 1);
  EXPECT_EQ(mean.channels(), 2);
  EXPECT_EQ(mean.height(), 1);
  EXPECT_EQ(mean.width(), 2);
  EXPECT_EQ(std::vector<float>(mean.data().begin(), mean.data().end()),
            std::vector<float>({1, 0, 255, 16}));
  EXPECT_CONTAINS(
      test::ErrorOf([&] { ComputeImageMean(folder_ / "db", folder_ / "mean.binaryproto"); }),
      "mean.binaryproto: exists already");
  // Without a file: the means of the channels alone.
  EXPECT_EQ(ComputeImageMean(folder_ / "db", "").channels, result.channels);
}

TEST_F(ConvertTest, MakesAndAveragesLevelDbsOfTheSameRecords) {
  WriteCifar(4);
  ConvertCifar(folder_ / "in", folder_ / "out", 4, DatabaseKind::kLevelDb);
  EXPECT_EQ(Names(folder_ / "out"),
            std::set<std::string>({"cifar10_test_leveldb", "cifar10_train_leveldb"}));
  ConvertCifar(folder_ / "in", folder_ / "out", 4);
  const auto level = OpenDatabase(folder_ / "out/cifar10_train_leveldb");
  const auto lmdb = OpenDatabase(folder_ / "out/cifar10_train_lmdb");
  ASSERT_EQ(level->size(), lmdb->size());
  const auto one = level->MakeReader(false), other = lmdb->MakeReader(false);
  for (uint64_t i = 0; i < lmdb->size(); ++i) {
    EXPECT_EQ(one->At(i).key, other->At(i).key);
    EXPECT_EQ(one->At(i).value, other->At(i).value);
  }
  ComputeImageMean(folder_ / "out/cifar10_train_leveldb", folder_ / "level");
  ComputeImageMean(folder_ / "out/cifar10_train_lmdb", folder_ / "lmdb");
  EXPECT_EQ(ReadFile(folder_ / "level"), ReadFile(folder_ / "lmdb"));
}

TEST_F(ConvertTest, ComputesTheMeanImageOfEncodedImages) {
  const Image one = test::SmoothPixels(3, 2, 2, 0), two = test::SmoothPixels(3, 2, 2, 2);
  test::WriteDb(folder_ / "db", {test::EncodedDatum(0, test::EncodePng(one, {})),
                                 test::EncodedDatum(1, test::EncodePng(two, {}))});
  EXPECT_EQ(ComputeImageMean(folder_ / "db", folder_ / "mean").images, 2u);
  caffe::BlobProto mean;
  LoadBinary(folder_ / "mean", "a mean", &mean);
  EXPECT_EQ(mean.channels(), 3);
  ASSERT_EQ(mean.data_size(), 12);
  for (int i = 0; i < 12; ++i) {  // planes of blue, green, red
    const int pixel = i % 4 * 3 + 2 - i / 4;
    EXPECT_EQ(mean.data(i), 0.5f * (one.values[pixel] + two.values[pixel]));
  }
  test::WriteDb(folder_ / "bad",
                {test::EncodedDatum(0, test::EncodePng(one, {})), test::EncodedDatum(1, "BM")});
  EXPECT_CONTAINS(test::ErrorOf([&] { ComputeImageMean(folder_ / "bad", folder_ / "none"); }),
                  folder_ / "bad" + ": record '00000001': is a BMP file");
}

TEST_F(ConvertTest, RefusesTheMeanOfImagesOfDifferentSizes) {
  test::WriteDb(folder_ / "db", {test::ByteDatum(0, 1, 2, 3), test::ByteDatum(1, 1, 3, 2)});
  EXPECT_EQ(test::ErrorOf([&] { ComputeImageMean(folder_ / "db", folder_ / "mean"); }),
            folder_ / "db" +
                ": record '00000001': is 1 x 3 x 2, expected 1 x 2 x 3 like the first record");
  EXPECT_FALSE(FileExists(folder_ / "mean"));
  test::WriteRawDb(folder_ / "raw", {test::ByteDatum(0).SerializeAsString(), "garbage"});
  EXPECT_CONTAINS(test::ErrorOf([&] { ComputeImageMean(folder_ / "raw", folder_ / "mean"); }),
                  "record '00000001': is not a Datum");
}

}  // namespace
}  // namespace millrace
