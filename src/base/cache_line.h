// What processors fetch at once: pieces that threads or devices write side by side begin on
// one each.
#ifndef MILLRACE_BASE_CACHE_LINE_H_
#define MILLRACE_BASE_CACHE_LINE_H_

#include <cstddef>

namespace millrace {

inline constexpr size_t kCacheLine = 64;

// `bytes`, and what is missing to whole lines.
constexpr size_t WholeCacheLines(size_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace millrace

#endif  // MILLRACE_BASE_CACHE_LINE_H_
