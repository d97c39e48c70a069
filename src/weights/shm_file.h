// A file under /dev/shm that holds a header and a weight array: creation, validation, locking,
// mapping and removal. weight_buffer.h interprets the header.
#ifndef MILLRACE_WEIGHTS_SHM_FILE_H_
#define MILLRACE_WEIGHTS_SHM_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>

#include "base/threads/range_lock.h"

namespace millrace::inline weights {

// Header of a weight array; docs/shm.md specifies its bytes. A file under /dev/shm begins with it;
// a private buffer has its own copy.
//
// The creator writes the plain fields before any other process can see the file. The process table
// changes only under flock(2). Atomics may change at any time.

constexpr char kShmMagic[8] = {'M', 'I', 'L', 'L', 'R', 'A', 'C', 'E'};
constexpr uint32_t kShmVersion = 4;
constexpr uint32_t kShmFloat32 = 1;
// File offset of the array in bytes: a multiple of the page size for pages of up to 64 KiB.
constexpr uint64_t kShmArrayOffset = 65536;
constexpr int kMaxProcesses = 64;
constexpr int kMaxSolvers = 256;

enum ShmState : uint32_t { kShmInitialising = 0, kShmReady = 1 };

enum ShmRole : uint32_t {
  kShmFree = 0,
  kShmTrainer = 1,
  kShmReader = 2,
  kShmFinishing = 3,  // trainer that has stopped but may still be saving
};

// Entry of the process table: one attached process.
struct ShmProcess {
  uint64_t start_time;  // see ProcessIdentity
  int32_t pid;
  uint32_t role;
  char reserved[48];
};

// Counters of one solver, in their own cache line. `done` persists when the slot is freed; the next
// owner continues from it.
struct alignas(64) ClockSlot {
  std::atomic<int64_t> done;    // iterations completed
  std::atomic<uint32_t> owner;  // index in the process table + 1; 0 = free
  char padding[4];
  std::atomic<int64_t> unmerged;  // of `done`, iterations whose progress the weights lack
  char reserved[40];
};

// Words of the iteration clock (iteration_clock.h), in separate cache lines.
struct ClockWords {
  alignas(64) std::atomic<int64_t> start;
  alignas(64) std::atomic<int64_t> claimed;
  alignas(64) std::atomic<int64_t> remote;
};

struct ShmHeader {
  char magic[8];
  uint32_t version;
  uint32_t dtype;
  uint64_t layout_digest;
  uint64_t param_count;  // number of arrays in the layout
  uint64_t array_floats;
  uint64_t array_offset;  // in bytes
  uint32_t max_processes;
  uint32_t max_solvers;
  std::atomic<uint32_t> state;
  char reserved[4];
  ClockWords clock;
  // How the trainers' solvers share the weights: text, cut to this length, then zeros.
  char strategy[512];
  alignas(4096) ShmProcess processes[kMaxProcesses];
  alignas(4096) ClockSlot solvers[kMaxSolvers];
  // Ranges of the weights that are being written; see range_lock.h.
  alignas(4096) RangeLockTable ranges;
};

static_assert(std::is_standard_layout_v<ShmHeader>);
static_assert(sizeof(ShmProcess) == 64 && sizeof(ClockSlot) == 64 && sizeof(RangeSlot) == 64);
static_assert(RangeLockTable::kShared == kMaxSolvers);
static_assert(sizeof(ShmHeader) <= kShmArrayOffset);
static_assert(std::atomic<int64_t>::is_always_lock_free &&
                  std::atomic<uint64_t>::is_always_lock_free &&
                  std::atomic<uint32_t>::is_always_lock_free,
              "processes share these words: they must not need a lock");

// Returns "/dev/shm/NAME". Throws Error unless `name` is 1 to 200 letters, digits, '.', '_' or '-'
// and does not begin with '.'.
std::string ShmPath(const std::string& name);

// Owns an mmap region. Movable; used by one thread at a time.
class Mapping {
 public:
  Mapping() = default;
  // Private zeroed memory, page-aligned, on huge pages where the kernel has them. Throws Error
  // naming `what` if there is no memory.
  static Mapping Anonymous(size_t bytes, const char* what);
  // Maps `bytes` of the file `fd`, starting at `offset`. Throws Error naming `path`.
  static Mapping OfFile(int fd, uint64_t offset, size_t bytes, bool writable,
                        const std::string& path);
  ~Mapping();
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept;

  void* get() const { return pointer_; }

 private:
  void* base_ = nullptr;
  size_t mapped_ = 0;
  void* pointer_ = nullptr;  // base_, rounded up to the alignment
};

// Thread-safe.
class ShmFile {
 public:
  // Opens the file at `path`; nullptr if it does not exist. Throws Error if it cannot be opened,
  // belongs to or is writable by another user, is shorter than a header, or has a header of another
  // program or version.
  static std::unique_ptr<ShmFile> Open(const std::string& path);
  // Creates a file that has room for the header only. `fill` completes the header before any other
  // process can see the file. Returns nullptr if another process created `path` first. Throws Error
  // if the file cannot be created.
  static std::unique_ptr<ShmFile> Create(const std::string& path,
                                         const std::function<void(ShmHeader*)>& fill);
  ~ShmFile();
  ShmFile(const ShmFile&) = delete;
  ShmFile& operator=(const ShmFile&) = delete;

  const std::string& path() const { return path_; }
  ShmHeader* header() const { return static_cast<ShmHeader*>(header_.get()); }

  // Excludes other threads and other processes (flock) while it exists. `file` must outlive it.
  class Lock {
   public:
    explicit Lock(ShmFile* file);
    ~Lock();

   private:
    std::lock_guard<std::mutex> threads_;
    const int fd_;
  };

  // False once the file has been unlinked.
  bool linked() const;
  // Unlinks path() if it still names this file.
  void Unlink();

  // Reserves memory for the array described by the header. Throws Error if there is not enough,
  // which would otherwise raise SIGBUS later.
  void AllocateArray();
  // Throws Error if the file is shorter than its header says.
  Mapping MapArray(bool writable) const;

 private:
  ShmFile(const std::string& path, int fd) : path_(path), fd_(fd) {}

  void CheckOwner() const;
  void CheckHeader() const;
  uint64_t FileBytes() const;

  const std::string path_;
  const int fd_;
  std::mutex mutex_;
  Mapping header_;
};

}  // namespace millrace::inline weights

#endif  // MILLRACE_WEIGHTS_SHM_FILE_H_
