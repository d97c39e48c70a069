#include "base/threads/barrier.h"

#include <glog/logging.h>

#include <utility>

namespace millrace::inline base {

Barrier::Barrier(int threads) : threads_(threads) { CHECK_GE(threads, 1); }

void Barrier::Wait() {
  std::unique_lock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  const uint64_t pass = passes_;
  if (++waiting_ == threads_) {
    waiting_ = 0;
    ++passes_;
    changed_.notify_all();
    return;
  }
  changed_.wait(lock, [&] { return passes_ != pass || error_; });
  // A pass that was complete before the barrier was poisoned counts.
  if (passes_ == pass) std::rethrow_exception(error_);
}

void Barrier::Poison(std::exception_ptr error) {
  {
    std::lock_guard lock(mutex_);
    if (error_) return;
    error_ = std::move(error);
  }
  changed_.notify_all();
}

void Barrier::ThrowIfPoisoned() const {
  std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

}  // namespace millrace::inline base
