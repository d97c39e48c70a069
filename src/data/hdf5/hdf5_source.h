// The rows of the HDF5 files of a list, one file after the other, as records. The list names files,
// separated by white space. A record's value is no Datum but the floats of a row, dataset after
// dataset; its key is the file's path.
#ifndef MILLRACE_DATA_HDF5_HDF5_SOURCE_H_
#define MILLRACE_DATA_HDF5_HDF5_SOURCE_H_

#include <memory>
#include <string>
#include <vector>

#include "millrace/blob.h"
#include "millrace/data_source.h"

namespace millrace::inline data {

// Records keep the values of their file in memory. A reader keeps those of the two files that it
// used last. Thread-safe.
class Hdf5Source : public DataSource {
 public:
  // Reads the shapes of the datasets `names` in all files, whose rows must be alike. Throws Error
  // naming the list or the file.
  Hdf5Source(const std::string& list_file, const std::vector<std::string>& names);

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return first_rows_.back(); }
  std::unique_ptr<RecordReader> MakeReader(bool random_access) override;

  // For each dataset, the shape of a row.
  const std::vector<Shape>& row_shapes() const { return row_shapes_; }
  // The number of rows of each file.
  const std::vector<uint64_t>& file_rows() const { return file_rows_; }

 private:
  class Reader;

  const std::string path_;
  const std::vector<std::string> names_;
  std::vector<std::string> files_;
  std::vector<std::vector<Shape>> shapes_;  // of each file's datasets
  std::vector<Shape> row_shapes_;
  int64_t row_floats_ = 0;
  std::vector<uint64_t> file_rows_;
  std::vector<uint64_t> first_rows_ = {0};  // of each file; the last entry is the number of rows
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_HDF5_HDF5_SOURCE_H_
