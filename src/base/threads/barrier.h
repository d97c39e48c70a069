// A barrier that a fixed number of threads passes together, any number of times. A thread that
// fails poisons it, so that no other waits for it.
#ifndef MILLRACE_BASE_THREADS_BARRIER_H_
#define MILLRACE_BASE_THREADS_BARRIER_H_

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>

namespace millrace::inline base {

// Thread-safe. No thread may be in Wait when the barrier is destroyed.
class Barrier {
 public:
  // For `threads` threads, at least 1.
  explicit Barrier(int threads);
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  // Returns when all threads have called it as often as this one. Everything that a thread did
  // before its call is visible to all others after theirs. Throws the error of Poison, at once also
  // in threads that wait already.
  void Wait();
  // Ends all use of the barrier: Wait throws `error` from now on. Later calls have no effect. Does
  // not wait.
  void Poison(std::exception_ptr error);
  // Throws the error of Poison, if it has been called.
  void ThrowIfPoisoned() const;

 private:
  const int threads_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  uint64_t passes_ = 0;
  std::exception_ptr error_;
};

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_THREADS_BARRIER_H_
