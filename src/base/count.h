// Counter with a single writer thread. Any thread may read it at any time.
#ifndef MILLRACE_BASE_COUNT_H_
#define MILLRACE_BASE_COUNT_H_

#include <atomic>
#include <cstdint>

namespace millrace {

class Count {
 public:
  // Callable from any thread.
  uint64_t Read() const { return value_.load(std::memory_order_relaxed); }

  // Writer thread only. With a single writer, a relaxed load and store suffice: no locked
  // instruction.
  void Add(uint64_t n = 1) { Set(Read() + n); }
  void Set(uint64_t value) { value_.store(value, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace millrace

#endif  // MILLRACE_BASE_COUNT_H_
