// Numbers with a single writer thread. Any thread may read them at any time. Each is one 64-bit
// word without a pointer, so that it may lie in memory which other processes map.
#ifndef MILLRACE_COUNTER_H_
#define MILLRACE_COUNTER_H_

#include <atomic>
#include <cstdint>

namespace millrace {

// A number that never decreases.
class Counter {
 public:
  // Callable from any thread.
  uint64_t Read() const { return value_.load(std::memory_order_relaxed); }

  // Writer thread only. With a single writer, a relaxed load and store suffice: no locked
  // instruction.
  void Add(uint64_t n = 1) { Set(Read() + n); }
  void Set(uint64_t value) { value_.store(value, std::memory_order_relaxed); }

  // Callable from any thread, if all writers of this counter call only this function.
  void AddShared(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// A number that goes up and down, or a counter with a fraction.
class Gauge {
 public:
  // Callable from any thread.
  double Read() const { return value_.load(std::memory_order_relaxed); }

  // Writer thread only.
  void Add(double n) { Set(Read() + n); }
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }

  // Callable from any thread, if all writers of this gauge call only this function.
  void AddShared(double n) { value_.fetch_add(n, std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

static_assert(sizeof(Counter) == 8 && std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(Gauge) == 8 && std::atomic<double>::is_always_lock_free);

}  // namespace millrace

#endif  // MILLRACE_COUNTER_H_
