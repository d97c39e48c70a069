// Simulates solvers that always have progress: adds some to a chunk whenever the exchange is
// about to read the chunk or to take a diff of it.
#ifndef MILLRACE_TEST_FABRIC_BUSY_EXECUTOR_H_
#define MILLRACE_TEST_FABRIC_BUSY_EXECUTOR_H_

#include <memory>
#include <span>
#include <utility>

#include "exchange/kernels/chunk_op.h"

namespace millrace::fabric {

// Decorates another executor on the same arrays. Adds 1, a token, to the first weight of a
// chunk, so that a test can count tokens on every node. Not thread-safe.
class BusyExecutor : public ChunkExecutor {
 public:
  // `busy` and `made` must outlive this object; `made` counts tokens.
  BusyExecutor(std::unique_ptr<ChunkExecutor> under, const bool* busy, uint64_t* made)
      : under_(std::move(under)), busy_(*busy), made_(*made) {}

  void Run(std::span<ChunkOp> ops) override {
    const ReplicaArrays& arrays = under_->arrays();
    for (const ChunkOp& op : ops) {
      const bool takes = op.kind == ChunkOpKind::kTake ||
                         (op.kind == ChunkOpKind::kExchange && op.take) ||
                         op.kind == ChunkOpKind::kRead;
      if (!busy_ || !takes) continue;
      arrays.weights[int64_t{op.chunk} * arrays.chunk_floats] += 1;
      ++made_;
    }
    under_->Run(ops);
  }
  const ReplicaArrays& arrays() const override { return under_->arrays(); }

 private:
  const std::unique_ptr<ChunkExecutor> under_;
  const bool& busy_;
  uint64_t& made_;
};

}  // namespace millrace::fabric

#endif  // MILLRACE_TEST_FABRIC_BUSY_EXECUTOR_H_
