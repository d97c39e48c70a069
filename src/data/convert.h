// Converts published data sets to databases of Datums, with the keys of Caffe's converters. An
// output that exists already is an error. A failure leaves no output. Every error in an input is
// one line that names the file. Thread-safe.
#ifndef MILLRACE_DATA_CONVERT_H_
#define MILLRACE_DATA_CONVERT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "data/database.h"

namespace millrace::inline data {

// MNIST and data sets in its format: IDX files of unsigned bytes, images (N x rows x columns) and
// labels (N), each plain or gzipped. Keys "%08d". Returns N.
uint64_t ConvertMnist(const std::string& image_file, const std::string& label_file,
                      const std::string& output_db, DatabaseKind kind = DatabaseKind::kLmdb);

// The number of records in each of CIFAR-10's files.
inline constexpr uint64_t kCifarRecordsPerFile = 10000;

// CIFAR-10's binary version. Converts data_batch_1.bin to data_batch_5.bin and test_batch.bin in
// `input_folder`, each of `records_per_file` records (a label 0 to 9 and 3 x 32 x 32 bytes), to
// cifar10_train_lmdb and cifar10_test_lmdb (or ..._leveldb) in `output_folder`, which must exist.
// Keys "%05d", in the order of the files. Creates both databases or none. Returns the number of
// records of both together.
uint64_t ConvertCifar(const std::string& input_folder, const std::string& output_folder,
                      uint64_t records_per_file = kCifarRecordsPerFile,
                      DatabaseKind kind = DatabaseKind::kLmdb);

struct ImageMean {
  uint64_t images = 0;
  std::vector<double> channels;  // the mean of each
};

// Computes the mean of all images of a database of either kind (raw or encoded, see
// data/images/pixel_reader.h), which must have one size, and writes it as a BlobProto of shape 1 x
// channels x height x width, the format of `mean_file`; "": writes no file.
ImageMean ComputeImageMean(const std::string& database, const std::string& output_file);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_CONVERT_H_
