// Writes rows of floats to the datasets of a new HDF5 file.
#ifndef MILLRACE_DATA_HDF5_HDF5_WRITER_H_
#define MILLRACE_DATA_HDF5_HDF5_WRITER_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "millrace/blob.h"

namespace millrace::inline data {

// Thread-safe.
class Hdf5Writer {
 public:
  // Creates the file, or empties it; returns the object if this process writes the file already.
  // The file is complete after the last user's end. Throws Error naming it.
  static std::shared_ptr<Hdf5Writer> Open(const std::string& path);
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  // Rows for a dataset: `shape` with the number of rows first, and that many values.
  struct Part {
    std::string dataset;  // a '/' in it makes a group
    Shape shape;
    const float* values;
  };
  // Appends rows to several datasets, which are created with their first rows, together: rows of
  // other threads come before or after. The file on disk is complete afterwards. Throws Error if
  // the rows differ in shape from earlier ones, or if the file cannot be written.
  void Append(const std::vector<Part>& parts);

 private:
  struct File;
  struct Dataset;

  explicit Hdf5Writer(const std::string& path);
  void Append(const Part& part);

  const std::string path_;
  std::mutex mutex_;  // of the members below
  std::unique_ptr<File> file_;
  std::map<std::string, std::unique_ptr<Dataset>> datasets_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_HDF5_HDF5_WRITER_H_
