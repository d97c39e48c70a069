// Executor that runs only while it holds a lock. If solvers take the same lock, no solver step is
// lost and tests can count updates exactly. Without the lock, a solver step between the segment
// thread's read and write of a weight is lost, as it is between two solvers.
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
  // `mutex` has to outlive the executor.
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
inline ReplicaDevice LockedHostReplica(std::mutex* mutex) {
  ReplicaDevice home = HostReplica();
  home.make_executor = [make = home.make_executor, mutex](const auto&... arguments) {
    return std::make_unique<LockedExecutor>(make(arguments...), mutex);
  };
  return home;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_LOCKED_EXECUTOR_H_
