#include "data/hdf5/hdf5_writer.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "data/hdf5/hdf5_rows.h"
#include "data/open_once.h"

namespace millrace::inline data {

struct Hdf5Writer::File {
  Hdf5Handle handle;
};

struct Hdf5Writer::Dataset {
  Hdf5Handle handle;
  Shape shape;  // so far
};

std::shared_ptr<Hdf5Writer> Hdf5Writer::Open(const std::string& path) {
  static auto* const writers = new OpenOnce<Hdf5Writer, std::string>;
  std::error_code ignored;
  const std::string name = std::filesystem::weakly_canonical(path, ignored).string();
  return writers->Open(name, [&] { return new Hdf5Writer(path); });
}

Hdf5Writer::Hdf5Writer(const std::string& path) : path_(path) {
  SilenceHdf5();
  file_ = std::make_unique<File>(
      File{Hdf5Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose)});
  if (!file_->handle) throw Error(path, ": cannot be written as an HDF5 file");
}

Hdf5Writer::~Hdf5Writer() = default;

void Hdf5Writer::Append(const std::vector<Part>& parts) {
  SilenceHdf5();
  const std::lock_guard lock(mutex_);
  for (const Part& part : parts) Append(part);
  if (H5Fflush(file_->handle.get(), H5F_SCOPE_LOCAL) < 0) throw Error(path_, ": cannot be written");
}

void Hdf5Writer::Append(const Part& part) {
  const Error failed(path_, ": dataset '", part.dataset, "' cannot be written");
  const std::vector<hsize_t> rows(part.shape.begin(), part.shape.end());
  const auto axes = static_cast<int>(rows.size());
  auto& dataset = datasets_[part.dataset];
  if (!dataset) {
    // A first axis that can grow needs chunks: of the rows of one call.
    std::vector<hsize_t> none = rows, most = rows;
    none[0] = 0;
    most[0] = H5S_UNLIMITED;
    const Hdf5Handle space(H5Screate_simple(axes, none.data(), most.data()), H5Sclose);
    const Hdf5Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    const Hdf5Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
    if (!space || !layout || !links || H5Pset_chunk(layout.get(), axes, rows.data()) < 0 ||
        H5Pset_create_intermediate_group(links.get(), 1) < 0) {
      throw failed;
    }
    dataset = std::make_unique<Dataset>(
        Dataset{Hdf5Handle(H5Dcreate2(file_->handle.get(), part.dataset.c_str(), H5T_NATIVE_FLOAT,
                                      space.get(), links.get(), layout.get(), H5P_DEFAULT),
                           H5Dclose),
                part.shape});
    dataset->shape[0] = 0;
  }
  if (!dataset->handle) throw failed;
  Shape expected = dataset->shape;
  expected[0] = part.shape[0];
  if (part.shape != expected) {
    throw Error(path_, ": dataset '", part.dataset, "': rows of ", ShapeText(part.shape),
                " do not fit those of ", ShapeText(dataset->shape));
  }
  std::vector<hsize_t> whole = rows, start(rows.size(), 0);
  start[0] = static_cast<hsize_t>(dataset->shape[0]);
  whole[0] += start[0];
  if (H5Dset_extent(dataset->handle.get(), whole.data()) < 0) throw failed;
  const Hdf5Handle space(H5Dget_space(dataset->handle.get()), H5Sclose);
  const Hdf5Handle memory(H5Screate_simple(axes, rows.data(), nullptr), H5Sclose);
  if (!space || !memory ||
      H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, rows.data(),
                          nullptr) < 0 ||
      H5Dwrite(dataset->handle.get(), H5T_NATIVE_FLOAT, memory.get(), space.get(), H5P_DEFAULT,
               part.values) < 0) {
    throw failed;
  }
  dataset->shape[0] += part.shape[0];
}

}  // namespace millrace::inline data
