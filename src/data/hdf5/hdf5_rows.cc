#include "data/hdf5/hdf5_rows.h"

#include <fcntl.h>

#include <cerrno>
#include <new>
#include <stdexcept>

#include "base/error.h"
#include "millrace/file_descriptor.h"

namespace millrace::inline data {
namespace {

Hdf5Handle OpenFile(const std::string& path) {
  const FileDescriptor readable(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (readable.get() < 0) throw Error(path, ": ", ErrnoText(errno));
  Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (!file) throw Error(path, ": is not an HDF5 file, or is damaged");
  return file;
}

Hdf5Handle OpenDataset(const std::string& path, const Hdf5Handle& file, const std::string& name) {
  Hdf5Handle dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset) throw Error(path, ": holds no dataset '", name, "'");
  return dataset;
}

// Throws Error if the library cannot undo one of the data set's filters, such as a compression.
void CheckFilters(const std::string& path, const Hdf5Handle& dataset, const std::string& name) {
  const Hdf5Handle creation(H5Dget_create_plist(dataset.get()), H5Pclose);
  const int filters = creation ? H5Pget_nfilters(creation.get()) : 0;
  for (int i = 0; i < filters; ++i) {
    char filter[64] = "";
    unsigned flags = 0;
    size_t values = 0;
    const H5Z_filter_t id = H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags,
                                           &values, nullptr, sizeof(filter), filter, nullptr);
    if (id < 0 || H5Zfilter_avail(id) > 0) continue;
    throw Error(path, ": dataset '", name, "' is stored with the filter '", filter, "' (number ",
                id, "), which the HDF5 library does not have; store it with gzip, or uncompressed");
  }
}

Shape ShapeOf(const std::string& path, const Hdf5Handle& file, const std::string& name) {
  const Hdf5Handle dataset = OpenDataset(path, file, name);
  const Hdf5Handle type(H5Dget_type(dataset.get()), H5Tclose);
  const H5T_class_t kind = type ? H5Tget_class(type.get()) : H5T_NO_CLASS;
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) {
    throw Error(path, ": dataset '", name, "': expected floats or integers");
  }
  const Hdf5Handle space(H5Dget_space(dataset.get()), H5Sclose);
  hsize_t dims[H5S_MAX_RANK];
  const int axes = space ? H5Sget_simple_extent_dims(space.get(), dims, nullptr) : -1;
  if (axes < 1) throw Error(path, ": dataset '", name, "': expected an array of rows");
  constexpr hsize_t kMax = hsize_t{1} << 31;
  hsize_t count = 1;
  for (int i = 0; i < axes; ++i) {
    if (dims[i] == 0 || dims[i] > kMax || (i > 0 && (count *= dims[i]) > kMax)) {
      throw Error(path, ": dataset '", name, "': axis ", i, " has the length ", dims[i],
                  ", expected 1 or more, and at most ", kMax, " values per row");
    }
  }
  return Shape(dims, dims + axes);
}

std::vector<Shape> ShapesOf(const std::string& path, const Hdf5Handle& file,
                            const std::vector<std::string>& names) {
  std::vector<Shape> shapes;
  for (const std::string& name : names) {
    shapes.push_back(ShapeOf(path, file, name));
    if (shapes.back()[0] != shapes[0][0]) {
      throw Error(path, ": dataset '", name, "' has ", shapes.back()[0], " rows, expected ",
                  shapes[0][0], " as '", names[0], "'");
    }
  }
  return shapes;
}

// Zeros for all values of a file. A file of a few bytes can claim any number of them.
std::vector<float> Zeros(const std::string& path, hsize_t rows, hsize_t row) {
  try {
    hsize_t count = 0;
    if (!__builtin_mul_overflow(rows, row, &count)) return std::vector<float>(count);
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  throw Error(path, ": has ", rows, " rows of ", row,
              " values, for which there is not enough memory");
}

}  // namespace

std::vector<Shape> Hdf5Shapes(const std::string& path, const std::vector<std::string>& names) {
  SilenceHdf5();
  return ShapesOf(path, OpenFile(path), names);
}

std::vector<float> ReadHdf5Rows(const std::string& path, const std::vector<std::string>& names,
                                const std::vector<Shape>& shapes) {
  SilenceHdf5();
  const Hdf5Handle file = OpenFile(path);
  if (ShapesOf(path, file, names) != shapes) throw Error(path, ": has changed while it was in use");
  const auto rows = static_cast<hsize_t>(shapes[0][0]);
  hsize_t row = 0;  // floats per row
  for (const Shape& shape : shapes) row += static_cast<hsize_t>(ShapeCount(shape)) / rows;
  std::vector<float> values = Zeros(path, rows, row);
  hsize_t column = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    // In memory, the values of the dataset are some columns of all rows.
    const hsize_t whole[] = {rows, row}, start[] = {0, column},
                  part[] = {rows, static_cast<hsize_t>(ShapeCount(shapes[i])) / rows};
    const Hdf5Handle memory(H5Screate_simple(2, whole, nullptr), H5Sclose);
    const Hdf5Handle dataset = OpenDataset(path, file, names[i]);
    if (!memory ||
        H5Sselect_hyperslab(memory.get(), H5S_SELECT_SET, start, nullptr, part, nullptr) < 0 ||
        H5Dread(dataset.get(), H5T_NATIVE_FLOAT, memory.get(), H5S_ALL, H5P_DEFAULT,
                values.data()) < 0) {
      CheckFilters(path, dataset, names[i]);
      throw Error(path, ": dataset '", names[i], "' cannot be read: it is damaged");
    }
    column += part[1];
  }
  return values;
}

}  // namespace millrace::inline data
