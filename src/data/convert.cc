#include "data/convert.h"

#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "data/database.h"
#include "data/datum_view.h"
#include "data/images/pixel_reader.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace::inline data {
namespace {

// A file that is read sequentially; decompressed if it is gzipped.
class InputFile {
 public:
  explicit InputFile(const std::string& path) : path_(path) {
    errno = 0;
    file_ = gzopen(path.c_str(), "rb");
    if (!file_) throw Error(path, ": ", ErrnoText(errno ? errno : ENOMEM));
    gzbuffer(file_, 1 << 17);
  }
  ~InputFile() { gzclose(file_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Fills `buffer`. `what` names it in the error if the file ends before.
  void Read(std::string* buffer, const char* what) {
    const int got = TryRead(buffer->data(), buffer->size());
    if (got != static_cast<int>(buffer->size())) {
      throw Error(path_, ": is truncated: it ends within ", what);
    }
  }

  // Big-endian, as in IDX headers.
  uint32_t ReadNumber(const char* what) {
    std::string bytes(4, '\0');
    Read(&bytes, what);
    uint32_t number = 0;
    for (const char c : bytes) number = number << 8 | static_cast<uint8_t>(c);
    return number;
  }

  void ExpectEnd(const char* what) {
    char extra;
    if (TryRead(&extra, 1) != 0) throw Error(path_, ": is longer than ", what);
  }

  const std::string& path() const { return path_; }

 private:
  int TryRead(char* buffer, size_t size) {
    const int got = gzread(file_, buffer, size);
    int code = Z_OK;
    const char* reason = gzerror(file_, &code);
    if (code == Z_ERRNO) throw Error(path_, ": ", ErrnoText(errno));
    if (code == Z_BUF_ERROR) throw Error(path_, ": is truncated: its gzip data ends early");
    if (code != Z_OK && code != Z_STREAM_END) throw Error(path_, ": bad gzip data: ", reason);
    return got;
  }

  const std::string path_;
  gzFile file_;
};

std::string Key(int digits, uint64_t number) {
  char key[32];
  const int length =
      snprintf(key, sizeof(key), "%0*llu", digits, static_cast<unsigned long long>(number));
  return std::string(key, length);
}

void Add(DatabaseWriter* writer, const std::string& key, const caffe::Datum& datum,
         std::string* buffer) {
  datum.SerializeToString(buffer);
  writer->Add(key, *buffer);
}

void ExpectMagic(InputFile* file, uint32_t expected, const char* what) {
  const uint32_t magic = file->ReadNumber("its header");
  if (magic != expected) {
    throw Error(file->path(), ": is not an IDX file of ", what, " (it begins with ", magic,
                ", expected ", expected, ")");
  }
}

constexpr uint64_t kCifarSide = 32;
constexpr uint64_t kCifarImageBytes = 3 * kCifarSide * kCifarSide;
constexpr uint8_t kCifarClasses = 10;

// Appends one of CIFAR's files. Its keys begin at `first`.
void AddCifarFile(const std::string& path, uint64_t records, uint64_t first,
                  DatabaseWriter* writer) {
  InputFile file(path);
  const std::string length = StrCat(records, " records of ", 1 + kCifarImageBytes, " bytes");
  caffe::Datum datum;
  datum.set_channels(3);
  datum.set_height(kCifarSide);
  datum.set_width(kCifarSide);
  std::string record(1 + kCifarImageBytes, '\0'), buffer;
  for (uint64_t i = 0; i < records; ++i) {
    file.Read(&record, length.c_str());
    const auto label = static_cast<uint8_t>(record[0]);
    if (label >= kCifarClasses) {
      throw Error(path, ": record ", i, " has label ", int{label},
                  ", expected 0 to 9; is this CIFAR-10's binary version?");
    }
    datum.set_label(label);
    datum.set_data(record.data() + 1, kCifarImageBytes);
    Add(writer, Key(5, first + i), datum, &buffer);
  }
  file.ExpectEnd(length.c_str());
}

}  // namespace

uint64_t ConvertMnist(const std::string& image_file, const std::string& label_file,
                      const std::string& output_db, DatabaseKind kind) {
  constexpr uint32_t kImageMagic = 0x803, kLabelMagic = 0x801;  // unsigned bytes; 3 and 1 axes
  constexpr uint32_t kMaxPixels = 1 << 28;
  constexpr uint32_t kMaxImages = 100'000'000;  // keys of eight digits
  InputFile images(image_file), labels(label_file);
  ExpectMagic(&images, kImageMagic, "images");
  ExpectMagic(&labels, kLabelMagic, "labels");
  const uint32_t count = images.ReadNumber("its header");
  const uint32_t label_count = labels.ReadNumber("its header");
  const uint64_t rows = images.ReadNumber("its header");
  const uint64_t columns = images.ReadNumber("its header");
  if (count != label_count) {
    throw Error(label_file, ": holds ", label_count, " labels, but ", image_file, " holds ", count,
                " images");
  }
  if (count == 0 || count > kMaxImages || rows == 0 || columns == 0 ||
      rows > kMaxPixels / columns) {
    throw Error(image_file, ": has a header of ", count, " images of ", rows, " x ", columns,
                ", which cannot be converted");
  }
  const auto writer = CreateDatabase(output_db, kind);
  caffe::Datum datum;
  datum.set_channels(1);
  datum.set_height(static_cast<int>(rows));
  datum.set_width(static_cast<int>(columns));
  std::string label(1, '\0'), buffer;
  datum.mutable_data()->resize(rows * columns);
  for (uint32_t i = 0; i < count; ++i) {
    images.Read(datum.mutable_data(), "the images that its header announces");
    labels.Read(&label, "the labels that its header announces");
    datum.set_label(static_cast<uint8_t>(label[0]));
    Add(writer.get(), Key(8, i), datum, &buffer);
  }
  images.ExpectEnd("its header says");
  labels.ExpectEnd("its header says");
  writer->Commit();
  return count;
}

uint64_t ConvertCifar(const std::string& input_folder, const std::string& output_folder,
                      uint64_t records_per_file, DatabaseKind kind) {
  constexpr int kTrainFiles = 5;
  const std::string suffix = kind == DatabaseKind::kLmdb ? "lmdb" : "leveldb";
  const auto train = CreateDatabase(output_folder + "/cifar10_train_" + suffix, kind);
  const auto test = CreateDatabase(output_folder + "/cifar10_test_" + suffix, kind);
  for (int i = 0; i < kTrainFiles; ++i) {
    AddCifarFile(StrCat(input_folder, "/data_batch_", i + 1, ".bin"), records_per_file,
                 i * records_per_file, train.get());
  }
  AddCifarFile(input_folder + "/test_batch.bin", records_per_file, 0, test.get());
  train->Finish();
  test->Finish();
  train->Commit();
  try {
    test->Commit();
  } catch (...) {
    train->Withdraw();
    throw;
  }
  return (kTrainFiles + 1) * records_per_file;
}

namespace {

struct ImageSums {
  int channels = 0, height = 0, width = 0;
  std::vector<double> values;  // (C, H, W)
};

ImageSums SumImages(const std::string& database, DataSource* images) {
  const auto cursor = images->MakeReader(false);
  const RecordView first_record = cursor->At(0);
  PixelReader reader;
  const DatumView first = reader.Read(database, first_record.key, first_record.value);
  const size_t count = size_t(first.channels) * first.height * first.width;
  ImageSums sums{first.channels, first.height, first.width, std::vector<double>(count, 0.0)};
  std::vector<float> floats(count);
  for (uint64_t i = 0; i < images->size(); ++i) {
    const RecordView record = cursor->At(i);
    const DatumView datum = reader.Read(database, record.key, record.value);
    if (datum.channels != first.channels || datum.height != first.height ||
        datum.width != first.width) {
      throw Error(RecordName(database, record.key), ": is ", datum.channels, " x ", datum.height,
                  " x ", datum.width, ", expected ", first.channels, " x ", first.height, " x ",
                  first.width, " like the first record");
    }
    if (datum.data.empty()) {
      CopyFloats(datum, floats.data());
      for (size_t k = 0; k < count; ++k) sums.values[k] += floats[k];
    } else {
      for (size_t k = 0; k < count; ++k) sums.values[k] += static_cast<uint8_t>(datum.data[k]);
    }
  }
  return sums;
}

}  // namespace

ImageMean ComputeImageMean(const std::string& database, const std::string& output_file) {
  if (!output_file.empty() && FileExists(output_file)) {
    throw Error(output_file, ": exists already; remove it or name another");
  }
  const auto images = OpenDatabase(database);
  ImageSums sums;
  try {
    sums = SumImages(database, images.get());
  } catch (const Error&) {
    images->ThrowIfDamaged();  // throws the cause if it is damage
    throw;
  }
  images->ThrowIfDamaged();
  ImageMean result{images->size(), std::vector<double>(sums.channels)};
  const size_t plane = sums.values.size() / sums.channels;
  caffe::BlobProto mean;
  mean.set_num(1);
  mean.set_channels(sums.channels);
  mean.set_height(sums.height);
  mean.set_width(sums.width);
  for (size_t i = 0; i < sums.values.size(); ++i) {
    const double value = sums.values[i] / static_cast<double>(images->size());
    mean.add_data(static_cast<float>(value));
    result.channels[i / plane] += value / static_cast<double>(plane);
  }
  if (!output_file.empty()) SaveBinary(output_file, mean);
  return result;
}

}  // namespace millrace::inline data
