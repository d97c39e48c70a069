// Asynchronous executor, as a device's is, with the latest possible completion: a batch runs only
// when a caller waits for it.
#ifndef MILLRACE_TEST_SUPPORT_LATE_EXECUTOR_H_
#define MILLRACE_TEST_SUPPORT_LATE_EXECUTOR_H_

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exchange/kernels/chunk_op.h"

namespace millrace::test {

class LateExecutor : public ChunkExecutor {
 public:
  LateExecutor(std::unique_ptr<ChunkExecutor> inner, size_t batch_ops)
      : inner_(std::move(inner)), batch_ops_(batch_ops) {}

  void Run(std::span<ChunkOp> ops) override {
    Finish();
    inner_->Run(ops);
  }
  void Start(std::span<ChunkOp> ops) override { started_.push_back(ops); }
  void Finish() override {
    for (const std::span<ChunkOp> ops : started_) inner_->Run(ops);
    started_.clear();
  }
  bool is_async() const override { return true; }
  size_t batch_ops() const override { return batch_ops_; }
  const ReplicaArrays& arrays() const override { return inner_->arrays(); }

 private:
  const std::unique_ptr<ChunkExecutor> inner_;
  const size_t batch_ops_;
  std::vector<std::span<ChunkOp>> started_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_LATE_EXECUTOR_H_
