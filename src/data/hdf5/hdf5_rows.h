#ifndef MILLRACE_DATA_HDF5_HDF5_ROWS_H_
#define MILLRACE_DATA_HDF5_HDF5_ROWS_H_

#include <hdf5.h>

#include <string>
#include <utility>
#include <vector>

#include "millrace/blob.h"

namespace millrace::inline data {

// An HDF5 identifier that is closed at the end of its scope. Debian builds the library thread-safe.
class Hdf5Handle {
 public:
  // Takes what a function of the library returned; negative if that failed. `close` is the function
  // for identifiers of that kind.
  Hdf5Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Hdf5Handle() {
    if (id_ >= 0) close_(id_);
  }
  Hdf5Handle(Hdf5Handle&& other) noexcept
      : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }

  explicit operator bool() const { return id_ >= 0; }
  hid_t get() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

// Stops the library from printing the errors of this thread, which callers report. Call it before
// functions that may fail.
inline void SilenceHdf5() {
  thread_local const bool silent = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  (void)silent;
}

// Reads datasets of HDF5 files as rows of floats: row i of a file is the i-th entry, along the
// first axis, of each of its datasets. Datasets hold floats or integers of any size. Thread-safe.

// The shapes of the datasets `names` of a file, which have the same first axis of 1 or more. Throws
// Error naming file and dataset.
std::vector<Shape> Hdf5Shapes(const std::string& path, const std::vector<std::string>& names);

// All rows of a file, each with the values of the first dataset, then of the second, and so on.
// `shapes` are from Hdf5Shapes. Throws Error if the file cannot be read or has changed.
std::vector<float> ReadHdf5Rows(const std::string& path, const std::vector<std::string>& names,
                                const std::vector<Shape>& shapes);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_HDF5_HDF5_ROWS_H_
