#include "weights/shm_file.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ios>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/files/private_file.h"

namespace millrace::inline weights {
namespace {

constexpr char kFolder[] = "/dev/shm";
constexpr size_t kHugePage = size_t{2} << 20;
// Exceeds the memory of any machine, and its size in bytes does not overflow.
constexpr uint64_t kMaxFloats = uint64_t{1} << 56;

// Never 0, so that even an array without floats has an address.
size_t ArrayBytes(uint64_t floats) { return std::max<size_t>(floats * sizeof(float), 64); }

constexpr char kNotABuffer[] =
    " is not a Millrace weight buffer; choose another name, or remove it";

}  // namespace

std::string ShmPath(const std::string& name) {
  const bool known_letters = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return isalnum(c) || c == '.' || c == '_' || c == '-';
  });
  if (name.empty() || name.size() > 200 || name[0] == '.' || !known_letters) {
    std::string shown = name.substr(0, 200);
    for (char& c : shown) c = isprint(static_cast<unsigned char>(c)) ? c : '?';
    throw Error("shared weights '", shown, "': expected the name of a file in ", kFolder,
                ": 1 to 200 letters, digits, '.', '_' or '-', not beginning with '.'");
  }
  return StrCat(kFolder, "/", name);
}

Mapping Mapping::Anonymous(size_t bytes, const char* what) {
  // For smaller blocks the alignment would waste more memory than huge pages save.
  const size_t alignment = bytes >= 2 * kHugePage ? kHugePage : 1;
  Mapping mapping;
  mapping.mapped_ = std::max<size_t>(bytes, 1) + alignment - 1;
  mapping.base_ =
      mmap(nullptr, mapping.mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping.base_ == MAP_FAILED) {
    mapping.base_ = nullptr;
    throw Error("out of memory: cannot allocate ", bytes, " bytes for ", what);
  }
  const auto address = reinterpret_cast<uintptr_t>(mapping.base_);
  mapping.pointer_ = reinterpret_cast<void*>((address + alignment - 1) / alignment * alignment);
  // Fails if the kernel has no huge pages; the mapping then uses small pages.
  madvise(mapping.base_, mapping.mapped_, MADV_HUGEPAGE);
  return mapping;
}

Mapping Mapping::OfFile(int fd, uint64_t offset, size_t bytes, bool writable,
                        const std::string& path) {
  Mapping mapping;
  mapping.mapped_ = bytes;
  mapping.base_ = mmap(nullptr, bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd,
                       static_cast<off_t>(offset));
  if (mapping.base_ == MAP_FAILED) {
    mapping.base_ = nullptr;
    throw Error(path, ": cannot be mapped: ", ErrnoText(errno));
  }
  mapping.pointer_ = mapping.base_;
  return mapping;
}

Mapping::~Mapping() {
  if (base_) munmap(base_, mapped_);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(mapped_, other.mapped_);
  std::swap(pointer_, other.pointer_);
  return *this;
}

std::unique_ptr<ShmFile> ShmFile::Open(const std::string& path) {
  // O_NOFOLLOW: a symbolic link could lead to another user's file. O_NONBLOCK: do not block on a
  // FIFO.
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT) return nullptr;
    if (errno == ELOOP || errno == EISDIR || errno == ENXIO) throw Error(path, kNotABuffer);
    throw Error(path, ": cannot be attached to: ", ErrnoText(errno));
  }
  std::unique_ptr<ShmFile> file(new ShmFile(path, fd));
  file->CheckOwner();
  if (file->FileBytes() < sizeof(ShmHeader)) {
    throw Error(path, kNotABuffer, " (", file->FileBytes(), " bytes are too few for its header)");
  }
  file->header_ = Mapping::OfFile(fd, 0, sizeof(ShmHeader), true, path);
  file->CheckHeader();
  return file;
}

std::unique_ptr<ShmFile> ShmFile::Create(const std::string& path,
                                         const std::function<void(ShmHeader*)>& fill) {
  // The file is named only after its header is complete.
  const int fd = CreateUnnamed(kFolder);
  if (fd < 0) throw Error(path, ": cannot be created: ", ErrnoText(errno));
  std::unique_ptr<ShmFile> file(new ShmFile(path, fd));
  if (const int error = posix_fallocate(fd, 0, sizeof(ShmHeader))) {
    throw Error(path, ": cannot be created: ", ErrnoText(error));
  }
  file->header_ = Mapping::OfFile(fd, 0, sizeof(ShmHeader), true, path);
  auto* header = new (file->header_.get()) ShmHeader();
  memcpy(header->magic, kShmMagic, sizeof(header->magic));
  header->version = kShmVersion;
  header->dtype = kShmFloat32;
  header->array_offset = kShmArrayOffset;
  header->max_processes = kMaxProcesses;
  header->max_solvers = kMaxSolvers;
  fill(header);
  if (!LinkUnnamed(fd, path)) {
    if (errno == EEXIST) return nullptr;
    throw Error(path, ": cannot be created: ", ErrnoText(errno));
  }
  return file;
}

ShmFile::~ShmFile() { close(fd_); }

ShmFile::Lock::Lock(ShmFile* file) : threads_(file->mutex_), fd_(file->fd_) {
  while (flock(fd_, LOCK_EX) != 0) PCHECK(errno == EINTR) << file->path_;
}

ShmFile::Lock::~Lock() { flock(fd_, LOCK_UN); }

bool ShmFile::linked() const {
  struct stat status;
  PCHECK(fstat(fd_, &status) == 0) << path_;
  return status.st_nlink > 0;
}

void ShmFile::Unlink() { UnlinkIfSame(fd_, path_); }

void ShmFile::AllocateArray() {
  const uint64_t floats = header()->array_floats;
  const size_t bytes = ArrayBytes(floats);
  int error = EFBIG;
  if (floats <= kMaxFloats) {
    do {
      error = posix_fallocate(fd_, kShmArrayOffset, static_cast<off_t>(bytes));
    } while (error == EINTR);
  }
  if (error == 0) return;
  struct statvfs space {};
  fstatvfs(fd_, &space);
  throw Error(path_, ": no room for ", bytes >> 20, " MiB of weights (",
              space.f_bavail * space.f_frsize >> 20, " MiB free in ", kFolder,
              "): ", ErrnoText(error));
}

Mapping ShmFile::MapArray(bool writable) const {
  const uint64_t floats = header()->array_floats;
  const bool fits = floats <= kMaxFloats && kShmArrayOffset + ArrayBytes(floats) <= FileBytes();
  if (!fits) {
    throw Error(path_, ": truncated: its header announces ", floats, " weights, and the file has ",
                FileBytes(), " bytes; remove it: rm ", path_);
  }
  const size_t bytes = ArrayBytes(floats);
  Mapping mapping = Mapping::OfFile(fd_, kShmArrayOffset, bytes, writable, path_);
  madvise(mapping.get(), bytes, MADV_HUGEPAGE);  // effective if /dev/shm is mounted with huge pages
  return mapping;
}

void ShmFile::CheckOwner() const {
  struct stat status;
  if (fstat(fd_, &status) != 0) throw Error(path_, ": ", ErrnoText(errno));
  if (!S_ISREG(status.st_mode)) throw Error(path_, kNotABuffer);
  if (status.st_uid != geteuid()) {
    throw Error(path_, " belongs to user ", status.st_uid, ", and this process runs as user ",
                geteuid(), "; choose another name");
  }
  // A user who may write the file may also truncate it, which would end this process by SIGBUS.
  if (status.st_mode & (S_IWGRP | S_IWOTH)) {
    throw Error(path_, " can be written by other users (mode ", std::oct, status.st_mode & 07777,
                ", expected 600); choose another name, or remove it");
  }
}

void ShmFile::CheckHeader() const {
  const ShmHeader& h = *header();
  if (memcmp(h.magic, kShmMagic, sizeof(h.magic)) != 0) throw Error(path_, kNotABuffer);
  if (h.version != kShmVersion) {
    throw Error(path_, " is a weight buffer of version ", h.version, ", expected version ",
                kShmVersion, ": it was made by another Millrace");
  }
  if (h.dtype != kShmFloat32) {
    throw Error(path_, " holds weights of type ", h.dtype, ", expected ", kShmFloat32,
                " (float32)");
  }
  if (h.array_offset != kShmArrayOffset || h.max_processes != kMaxProcesses ||
      h.max_solvers != kMaxSolvers) {
    throw Error(path_, " is damaged: the sizes of its tables are not those of version ",
                kShmVersion, "; remove it: rm ", path_);
  }
}

uint64_t ShmFile::FileBytes() const {
  struct stat status;
  if (fstat(fd_, &status) != 0) throw Error(path_, ": ", ErrnoText(errno));
  return static_cast<uint64_t>(status.st_size);
}

}  // namespace millrace::inline weights
