// An executor that never runs while whoever holds a lock does. Solvers that take the lock lose no
// step to a segment's thread, so what they added can be counted exactly: without it, a step that
// falls between the thread's reading of a weight and its writing is lost, as between solvers.
#ifndef MILLRACE_TEST_SUPPORT_LOCKED_EXECUTOR_H_
#define MILLRACE_TEST_SUPPORT_LOCKED_EXECUTOR_H_

#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "segment/replica_device.h"

namespace millrace::test {

class LockedExecutor : public ChunkExecutor {
 public:
  // `mutex` outlives it.
  LockedExecutor(std::unique_ptr<ChunkExecutor> inner, std::mutex* mutex)
      : inner_(std::move(inner)), mutex_(*mutex) {}

  void Run(std::span<ChunkOp> ops) override {
    std::lock_guard lock(mutex_);
    inner_->Run(ops);
  }
  const ReplicaArrays& arrays() const override { return inner_->arrays(); }

 private:
  const std::unique_ptr<ChunkExecutor> inner_;
  std::mutex& mutex_;
};

// Host memory, with such an executor for each segment.
inline ReplicaDevice LockedHostHome(std::mutex* mutex) {
  ReplicaDevice home = HostReplica();
  home.make_executor = [make = home.make_executor, mutex](const auto&... arguments) {
    return std::make_unique<LockedExecutor>(make(arguments...), mutex);
  };
  return home;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_LOCKED_EXECUTOR_H_
