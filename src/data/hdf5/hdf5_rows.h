// Reads datasets of HDF5 files as rows of floats: row i of a file is the i-th entry, along the
// first axis, of each of its datasets. Datasets hold floats or integers of any size. Thread-safe.
#ifndef MILLRACE_DATA_HDF5_HDF5_ROWS_H_
#define MILLRACE_DATA_HDF5_HDF5_ROWS_H_

#include <string>
#include <vector>

#include "millrace/blob.h"

namespace millrace::inline data {

// The shapes of the datasets `names` of a file, which have the same first axis of 1 or more. Throws
// Error naming file and dataset.
std::vector<Shape> Hdf5Shapes(const std::string& path, const std::vector<std::string>& names);

// All rows of a file, each with the values of the first dataset, then of the second, and so on.
// `shapes` are from Hdf5Shapes. Throws Error if the file cannot be read or has changed.
std::vector<float> ReadHdf5Rows(const std::string& path, const std::vector<std::string>& names,
                                const std::vector<Shape>& shapes);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_HDF5_HDF5_ROWS_H_
