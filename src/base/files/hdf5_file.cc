#include "base/files/hdf5_file.h"

#include <fcntl.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/files/file.h"

namespace millrace::inline base {
namespace {

static_assert(sizeof(hid_t) == sizeof(int64_t));

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";

// The library prints an account of every failed call unless a thread tells it not to.
void BeQuiet() {
  thread_local const bool quiet = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  (void)quiet;
}

// A handle that `close` ends.
class ScopedId {
 public:
  ScopedId(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~ScopedId() {
    if (id_ >= 0) close_(id_);
  }
  ScopedId(const ScopedId&) = delete;
  ScopedId& operator=(const ScopedId&) = delete;
  operator hid_t() const { return id_; }  // NOLINT: as the library's functions take it
  bool ok() const { return id_ >= 0; }

 private:
  const hid_t id_;
  herr_t (*const close_)(hid_t);
};

// Whether each component of the path exists.
bool Exists(hid_t file, const std::string& name) {
  BeQuiet();
  for (size_t end = 0; end != std::string::npos;) {
    end = name.find('/', end + 1);
    if (H5Lexists(file, name.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return true;
}

bool IsKind(hid_t file, const std::string& name, H5I_type_t kind) {
  if (!Exists(file, name)) return false;
  const ScopedId object(H5Oopen(file, name.c_str(), H5P_DEFAULT), H5Oclose);
  return object.ok() && H5Iget_type(object) == kind;
}

// An open data set with its extents.
struct DataSet {
  DataSet(const std::string& path, hid_t file, const std::string& name)
      : what(StrCat(path, ": ", name)),
        id(Exists(file, name) ? H5Dopen2(file, name.c_str(), H5P_DEFAULT) : -1, H5Dclose) {
    if (!id.ok()) throw Error(path, ": holds no data set ", name);
    const ScopedId space(H5Dget_space(id), H5Sclose);
    const int axes = space.ok() ? H5Sget_simple_extent_ndims(space) : -1;
    if (axes < 0) Fail();
    std::vector<hsize_t> dims(axes);
    if (axes > 0 && H5Sget_simple_extent_dims(space, dims.data(), nullptr) < 0) Fail();
    for (const hsize_t dim : dims) {
      if (__builtin_mul_overflow(count, dim, &count) || count > INT64_MAX / 8) Fail();
      shape.push_back(static_cast<int64_t>(dim));
    }
  }
  [[noreturn]] void Fail() const { throw Error(what, ": cannot be read: damaged or truncated"); }

  const std::string what;
  const ScopedId id;
  std::vector<int64_t> shape;
  int64_t count = 1;
};

}  // namespace

bool IsHdf5(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char begin[kSignature.size()];
  const ssize_t got = read(fd, begin, sizeof(begin));
  close(fd);
  return got == ssize_t{sizeof(begin)} && std::string_view(begin, sizeof(begin)) == kSignature;
}

Hdf5FileReader::Hdf5FileReader(const std::string& path) : path_(path) {
  BeQuiet();
  struct stat status;
  if (stat(path.c_str(), &status) != 0) throw Error(path, ": ", ErrnoText(errno));
  if (S_ISDIR(status.st_mode)) throw Error(path, ": ", ErrnoText(EISDIR));
  if (access(path.c_str(), R_OK) != 0) throw Error(path, ": ", ErrnoText(errno));
  if (status.st_size == 0) throw Error(path, ": is empty, expected an HDF5 file");
  bytes_ = status.st_size;
  file_ = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file_ < 0) throw Error(path, ": truncated or not an HDF5 file");
}

Hdf5FileReader::~Hdf5FileReader() { H5Fclose(file_); }

bool Hdf5FileReader::HasGroup(const std::string& name) const {
  return IsKind(file_, name, H5I_GROUP);
}

bool Hdf5FileReader::HasDataSet(const std::string& name) const {
  return IsKind(file_, name, H5I_DATASET);
}

std::vector<std::string> Hdf5FileReader::Members(const std::string& group) const {
  BeQuiet();
  if (!group.empty() && !HasGroup(group)) throw Error(path_, ": holds no group ", group);
  const ScopedId id(H5Gopen2(file_, group.empty() ? "/" : group.c_str(), H5P_DEFAULT), H5Gclose);
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  if (!id.ok() || H5Literate(id, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names) < 0) {
    throw Error(path_, ": group ", group, " cannot be read: damaged or truncated");
  }
  return names;
}

std::vector<int64_t> Hdf5FileReader::ShapeOf(const std::string& name) const {
  return DataSet(path_, file_, name).shape;
}

template <typename T>
std::vector<T> Hdf5FileReader::Numbers(const std::string& name, int64_t memory_type) const {
  const DataSet set(path_, file_, name);
  const ScopedId type(H5Dget_type(set.id), H5Tclose), plan(H5Dget_create_plist(set.id), H5Pclose);
  if (!type.ok() || !plan.ok()) set.Fail();
  const H5T_class_t kind = H5Tget_class(type);
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) throw Error(set.what, ": holds no numbers");
  // Without chunks, which may be compressed or absent, all numbers are in the file.
  if (H5Pget_layout(plan) != H5D_CHUNKED &&
      set.count > bytes_ / static_cast<int64_t>(std::max<size_t>(1, H5Tget_size(type)))) {
    set.Fail();
  }
  try {
    std::vector<T> values(set.count);
    if (set.count > 0 &&
        H5Dread(set.id, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0) {
      set.Fail();
    }
    return values;
  } catch (const std::bad_alloc&) {
    throw Error(set.what, ": holds ", set.count, " numbers, for which there is not enough memory");
  }
}

std::vector<float> Hdf5FileReader::Floats(const std::string& name) const {
  return Numbers<float>(name, H5T_NATIVE_FLOAT);
}

std::vector<int64_t> Hdf5FileReader::Integers(const std::string& name) const {
  return Numbers<int64_t>(name, H5T_NATIVE_INT64);
}

int64_t Hdf5FileReader::Integer(const std::string& name) const {
  const std::vector<int64_t> values = Integers(name);
  if (values.size() != 1) {
    throw Error(path_, ": ", name, ": holds ", values.size(), " numbers, expected 1");
  }
  return values[0];
}

std::string Hdf5FileReader::Text(const std::string& name) const {
  const DataSet set(path_, file_, name);
  const ScopedId type(H5Dget_type(set.id), H5Tclose);
  if (!type.ok()) set.Fail();
  if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0 || set.count != 1) {
    throw Error(set.what, ": holds no text of fixed length");
  }
  const size_t size = H5Tget_size(type);
  if (size > static_cast<size_t>(bytes_)) set.Fail();
  std::string text(size, '\0');
  if (H5Dread(set.id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) < 0) set.Fail();
  return text.substr(0, text.find('\0'));
}

Hdf5FileWriter::Hdf5FileWriter(const std::string& path) : path_(path) {
  BeQuiet();
  const ScopedId access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  constexpr size_t kIncrement = 1 << 20;
  const bool in_memory = access.ok() && H5Pset_fapl_core(access, kIncrement, false) >= 0;
  if (in_memory) file_ = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  if (file_ < 0) throw Error(path, ": cannot be written: not enough memory");
}

Hdf5FileWriter::~Hdf5FileWriter() {
  if (file_ >= 0) H5Fclose(file_);
}

void Hdf5FileWriter::AddGroup(const std::string& name) {
  BeQuiet();
  const ScopedId links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links, 1);
  if (const ScopedId found(H5Gopen2(file_, name.c_str(), H5P_DEFAULT), H5Gclose); found.ok())
    return;
  const ScopedId group(H5Gcreate2(file_, name.c_str(), links, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
  if (!group.ok()) throw Error(path_, ": cannot hold a group ", name, ": the name is taken");
}

void Hdf5FileWriter::Add(const std::string& name, const std::vector<int64_t>& shape, int64_t type,
                         const void* values) {
  BeQuiet();
  const ScopedId links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links, 1);
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  const ScopedId space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
                       H5Sclose);
  const ScopedId set(H5Dcreate2(file_, name.c_str(), type, space, links, H5P_DEFAULT, H5P_DEFAULT),
                     H5Dclose);
  if (!set.ok()) throw Error(path_, ": cannot hold a data set ", name, ": the name is taken");
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  if (H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) {
    throw Error(path_, ": cannot be written: not enough memory for ", name);
  }
}

void Hdf5FileWriter::AddFloats(const std::string& name, const std::vector<int64_t>& shape,
                               const float* values) {
  Add(name, shape, H5T_NATIVE_FLOAT, values);
}

void Hdf5FileWriter::AddInteger(const std::string& name, int32_t value) {
  Add(name, {1}, H5T_NATIVE_INT32, &value);
}

void Hdf5FileWriter::AddIntegers(const std::string& name, const std::vector<int64_t>& values) {
  Add(name, {static_cast<int64_t>(values.size())}, H5T_NATIVE_INT64, values.data());
}

void Hdf5FileWriter::AddText(const std::string& name, const std::string& text) {
  const ScopedId type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type, text.size() + 1);
  H5Tset_strpad(type, H5T_STR_NULLTERM);
  Add(name, {}, type, text.c_str());
}

void Hdf5FileWriter::Commit() {
  BeQuiet();
  void* begin = nullptr;  // where the library keeps the address of the bytes
  const bool flushed =
      H5Fflush(file_, H5F_SCOPE_GLOBAL) >= 0 && H5Fget_vfd_handle(file_, H5P_DEFAULT, &begin) >= 0;
  const ssize_t bytes = flushed ? H5Fget_file_image(file_, nullptr, 0) : -1;
  if (bytes < 0) throw Error(path_, ": cannot be written: not enough memory");
  AtomicFile file(path_);
  file.Write({*static_cast<const char* const*>(begin), static_cast<size_t>(bytes)});
  file.Commit();
}

}  // namespace millrace::inline base
