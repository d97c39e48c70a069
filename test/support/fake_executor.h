// Executor that decorates another one on the same arrays. It can emulate a device, whose executor
// completes batches late, and call a test before each batch runs.
#ifndef MILLRACE_TEST_SUPPORT_FAKE_EXECUTOR_H_
#define MILLRACE_TEST_SUPPORT_FAKE_EXECUTOR_H_

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exchange/kernels/chunk_op.h"

namespace millrace::test {

struct FakeExecutorOptions {
  // Above 0: asynchronous, with batches of this many operations. A batch that is started runs when
  // a caller waits for it, which is as late as possible.
  size_t late_batch_ops = 0;
  // Called before operations run. May throw, as an executor does whose device is lost.
  std::function<void(std::span<const ChunkOp> ops)> before = {};
};

class FakeExecutor : public ChunkExecutor {
 public:
  FakeExecutor(std::unique_ptr<ChunkExecutor> inner, FakeExecutorOptions options)
      : inner_(std::move(inner)), options_(std::move(options)) {}

  void Run(std::span<ChunkOp> ops) override {
    Finish();
    RunNow(ops);
  }
  void Start(std::span<ChunkOp> ops) override {
    is_async() ? started_.push_back(ops) : RunNow(ops);
  }
  void Finish() override {
    for (const std::span<ChunkOp> ops : started_) RunNow(ops);
    started_.clear();
  }
  bool is_async() const override { return options_.late_batch_ops > 0; }
  size_t batch_ops() const override {
    return is_async() ? options_.late_batch_ops : inner_->batch_ops();
  }
  const ReplicaArrays& arrays() const override { return inner_->arrays(); }

 private:
  void RunNow(std::span<ChunkOp> ops) {
    if (options_.before) options_.before(ops);
    inner_->Run(ops);
  }

  const std::unique_ptr<ChunkExecutor> inner_;
  const FakeExecutorOptions options_;
  std::vector<std::span<ChunkOp>> started_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_FAKE_EXECUTOR_H_
