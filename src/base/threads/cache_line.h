// Cache line size. Data that different threads or devices write starts on separate cache lines,
// which avoids false sharing.
#ifndef MILLRACE_BASE_THREADS_CACHE_LINE_H_
#define MILLRACE_BASE_THREADS_CACHE_LINE_H_

#include <cstddef>

namespace millrace::inline base {

inline constexpr size_t kCacheLine = 64;

// Rounds `bytes` up to a multiple of kCacheLine.
constexpr size_t WholeCacheLines(size_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_THREADS_CACHE_LINE_H_
