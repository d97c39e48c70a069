// Carries out operations (chunk_op.h) on a replica in a device's memory: many operations per
// kernel, several kernels under way on one stream, in the order in which they were asked for.
//
// Whose memory is what, by the number of an operation (1, 2, ... in the order of Start):
//   op.in, op.out   lent by the caller from Start on; the kernel's from the launch on; the
//                   caller's again when Reclaim() has reached the operation's number, which is
//                   after the mark behind its kernel, and never falls
//   the ChunkOp     the executor's just as long; its results are there with Reclaim()
// Memory that was shown (Share) is reached by kernels where it is. What lies elsewhere is
// copied: into pinned staging when it is started, out of it when it is reclaimed.
//
// Not thread-safe. Start, Reclaim, Finish and Run throw Error when the device has failed, and
// from then on always: everything belongs to the caller again, and no result means anything.
// Nothing is allocated after construction.
#ifndef MILLRACE_EXCHANGE_KERNELS_STREAM_EXECUTOR_H_
#define MILLRACE_EXCHANGE_KERNELS_STREAM_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/kernels/kernel_stream.h"

namespace millrace {

struct StreamLimits {
  uint32_t launch_ops = 256;       // operations of one kernel at most, at least 1
  uint32_t launches = 4;           // kernels under way at once; 1 to kMostLaunches
  uint32_t stage_bytes = 1 << 20;  // of payloads copied for one kernel; one operation's at least
};

class StreamExecutor : public ChunkExecutor {
 public:
  // `arrays` are memory that the stream's kernels reach, and outlive the executor. Of at most
  // kMostKernelFloats a chunk. Throws Error.
  StreamExecutor(std::unique_ptr<KernelStream> stream, const ReplicaArrays& arrays,
                 const CodecConfig& codec = {}, const StreamLimits& limits = {});
  // Waits until the device touches no memory of an operation any more.
  ~StreamExecutor() override;

  // Set-up: payloads will lie in `memory`, which outlives the executor. Whether they are
  // reached there, without a copy.
  bool RegisterMemory(std::span<const std::byte> memory) override;
  MemorySpace& payload_memory() override { return stream_->shared(); }

  // All of them, to their end.
  void Run(std::span<ChunkOp> ops) override;
  const ReplicaArrays& arrays() const override { return arrays_; }

  // Begins with `ops`, which need not be from one batch: what follows on the same chunk sees
  // what came before. Waits only when all launches are under way.
  void Start(std::span<ChunkOp> ops) override;
  bool is_async() const override { return true; }
  size_t batch_ops() const override { return limits_.launch_ops; }
  // The last number given out.
  uint64_t started() const { return started_; }
  // Looks which kernels have ended; the number up to which operations are done with.
  uint64_t Reclaim();
  // Waits until all are.
  void Finish() override;

  uint64_t launches() const { return launched_; }
  uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  struct Shared {
    const std::byte* begin;
    const std::byte* end;
    std::byte* device;
  };
  // What one launch is made of; its memory is used again when it is reclaimed.
  struct Launch {
    KernelOp* ops = nullptr;
    uint32_t* chains = nullptr;
    std::byte* stage = nullptr;
    uint32_t chain_count = 0, staged_bytes = 0;
    std::vector<ChunkOp*> asked;  // by index in ops
    std::vector<bool> copied_out;
    uint32_t size() const { return static_cast<uint32_t>(asked.size()); }
  };
  // The last operation on a chunk in launch `launch`.
  struct LastOp {
    uint64_t launch = 0;
    uint32_t index = 0;
  };

  const Shared* Find(const std::byte* begin, size_t bytes) const;
  static uint32_t InBytes(const ChunkOp& op);
  uint32_t OutBytes(const ChunkOp& op) const;
  void Add(ChunkOp* op);
  std::byte* Stage(Launch* launch, uint32_t bytes);
  void Enqueue();
  void Conclude(Launch* launch);
  void ReclaimOldest();
  void ThrowIfFailed();
  Launch& open() { return ring_[launched_ % ring_.size()]; }

  const std::unique_ptr<KernelStream> stream_;
  const ReplicaArrays arrays_;
  const float threshold_;
  const StreamLimits limits_;
  Buffer memory_;  // of all launches, shared
  std::vector<Launch> ring_;
  std::vector<LastOp> last_;  // by chunk
  std::vector<Shared> shared_;
  uint64_t launched_ = 0, concluded_ = 0;  // launches; the next one is open
  uint64_t started_ = 0, reclaimed_ = 0;   // operations
  uint64_t copied_bytes_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_STREAM_EXECUTOR_H_
