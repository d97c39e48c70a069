// HDF5 files: groups and data sets by their path in the file ("history/0"). The library is built
// thread-safe in Debian, so that each thread may have files of its own.
#ifndef MILLRACE_BASE_FILES_HDF5_FILE_H_
#define MILLRACE_BASE_FILES_HDF5_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace millrace::inline base {

// Whether the file begins as HDF5 files do. False if it cannot be read.
bool IsHdf5(const std::string& path);

// An open file, for one thread at a time. Errors begin with the path of the file and name the data
// set. The library trusts files: read those of strangers in a process that may crash.
class Hdf5FileReader {
 public:
  // Throws Error if the file is missing, empty, truncated, or of another kind.
  explicit Hdf5FileReader(const std::string& path);
  ~Hdf5FileReader();
  Hdf5FileReader(const Hdf5FileReader&) = delete;
  Hdf5FileReader& operator=(const Hdf5FileReader&) = delete;

  const std::string& path() const { return path_; }

  bool HasGroup(const std::string& name) const;
  bool HasDataSet(const std::string& name) const;
  // The members of a group, which "" names for the root, in the order of their names. Throws Error
  // if there is no such group, as the functions below do for data sets.
  std::vector<std::string> Members(const std::string& group) const;

  // The extents of a data set; empty for a single number without axes.
  std::vector<int64_t> ShapeOf(const std::string& name) const;
  // All numbers of a data set of integers or floats of any size, row-major, as the wanted type.
  std::vector<float> Floats(const std::string& name) const;
  std::vector<int64_t> Integers(const std::string& name) const;
  // The only number of a data set.
  int64_t Integer(const std::string& name) const;
  std::string Text(const std::string& name) const;

 private:
  // Reads a data set of numbers, after checks of its type and size.
  template <typename T>
  std::vector<T> Numbers(const std::string& name, int64_t memory_type) const;

  const std::string path_;
  int64_t bytes_ = 0;  // size of the file
  int64_t file_ = -1;  // the library's handle
};

// Builds a file in memory and replaces `path` by it atomically.
class Hdf5FileWriter {
 public:
  explicit Hdf5FileWriter(const std::string& path);
  ~Hdf5FileWriter();
  Hdf5FileWriter(const Hdf5FileWriter&) = delete;
  Hdf5FileWriter& operator=(const Hdf5FileWriter&) = delete;

  // Each makes the groups on the way that do not exist. Throws Error naming the file and `name` if
  // a data set of that name exists, or for a data set a group.
  void AddGroup(const std::string& name);
  void AddFloats(const std::string& name, const std::vector<int64_t>& shape, const float* values);
  // One axis; 32-bit integers, as Caffe writes them, or 64-bit ones.
  void AddInteger(const std::string& name, int32_t value);
  void AddIntegers(const std::string& name, const std::vector<int64_t>& values);
  // A string of fixed length that ends with a zero byte.
  void AddText(const std::string& name, const std::string& text);

  // Writes the file; nothing may be added afterwards. Throws Error with the path and the reason,
  // for example a full disk.
  void Commit();

 private:
  void Add(const std::string& name, const std::vector<int64_t>& shape, int64_t type,
           const void* values);

  const std::string path_;
  int64_t file_ = -1;
};

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_FILES_HDF5_FILE_H_
