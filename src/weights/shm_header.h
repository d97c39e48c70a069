// The bytes in front of a weight array, byte by byte as docs/shm.md has them. A
// file under /dev/shm begins with one; a private buffer has one of its own.
//
// Plain fields are written by the creator before any other process can see the
// file, the process table only under flock(2); atomics may change at any time.
#ifndef MILLRACE_WEIGHTS_SHM_HEADER_H_
#define MILLRACE_WEIGHTS_SHM_HEADER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/range_lock.h"

namespace millrace {

constexpr char kShmMagic[8] = {'M', 'I', 'L', 'L', 'R', 'A', 'C', 'E'};
constexpr uint32_t kShmVersion = 3;
constexpr uint32_t kShmFloat32 = 1;
// Where the array begins: a whole number of pages wherever pages have at most
// 64 KiB.
constexpr uint64_t kShmArrayOffset = 65536;
constexpr int kMaxProcesses = 64;
constexpr int kMaxSolvers = 256;

enum ShmState : uint32_t { kShmInitialising = 0, kShmReady = 1 };

enum ShmRole : uint32_t {
  kShmFree = 0,
  kShmTrainer = 1,
  kShmReader = 2,
  kShmFinishing = 3,  // a trainer that has stopped but may still be saving
};

// One attached process.
struct ShmProcess {
  uint64_t start_time;  // see ProcessIdentity
  int32_t pid;
  uint32_t role;
  char reserved[48];
};

// One solver's counter, on a cache line of its own. `done` outlives its owner:
// the next owner goes on counting where the last one stopped.
struct alignas(64) ClockSlot {
  std::atomic<int64_t> done;    // iterations completed
  std::atomic<uint32_t> owner;  // index in the process table + 1; 0 = free
  char reserved[52];
};

// The iteration clock's three words; see iteration_clock.h.
struct ClockWords {
  alignas(64) std::atomic<int64_t> start;
  alignas(64) std::atomic<int64_t> claimed;
  alignas(64) std::atomic<int64_t> elsewhere;
};

struct ShmHeader {
  char magic[8];
  uint32_t version;
  uint32_t dtype;
  uint64_t layout_digest;
  uint64_t param_count;  // arrays in the layout
  uint64_t array_floats;
  uint64_t array_offset;  // bytes
  uint32_t max_processes;
  uint32_t max_solvers;
  std::atomic<uint32_t> state;
  char reserved[4];
  ClockWords clock;
  alignas(4096) ShmProcess processes[kMaxProcesses];
  alignas(4096) ClockSlot solvers[kMaxSolvers];
  // Who writes which of the weights; see range_lock.h.
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

}  // namespace millrace

#endif  // MILLRACE_WEIGHTS_SHM_HEADER_H_
