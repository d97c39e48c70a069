// Work on a range of shared weights, in blocks that an exclusive holder need not wait for long.
#ifndef MILLRACE_BASE_THREADS_LOCKED_BLOCKS_H_
#define MILLRACE_BASE_THREADS_LOCKED_BLOCKS_H_

#include <algorithm>
#include <cstdint>

#include "base/threads/range_lock.h"

namespace millrace::inline base {

// Calls work(offset, count) for all elements of weights[offset, offset + count). With a lock, it
// does so in blocks of about a microsecond each, during which `holder` holds their range. Without
// one, in a single call: concurrent stores by exchanges may then be lost.
template <typename Work>
void ForLockedBlocks(RangeLock::Shared* holder, const float* weights, int64_t offset, int64_t count,
                     Work work) {
  constexpr int64_t kBlock = 4096;  // floats
  if (holder == nullptr) return work(offset, count);
  const int64_t end = offset + count;
  for (; offset < end; offset += kBlock) {
    const int64_t block = std::min(kBlock, end - offset);
    holder->Lock(weights + offset, block);
    work(offset, block);
    holder->Unlock();
  }
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_THREADS_LOCKED_BLOCKS_H_
