// Executes operations (chunk_op.h) on a replica in device memory. Each kernel executes many
// operations. Several kernels may be in flight on the executor's own queue (millrace/queue.h),
// which has low priority, so that solvers' kernels run first. They run in the order in which they
// were started.
//
// The executor owns the operations, op.in and op.out from Start() until Finish() returns, which
// waits for the events behind their kernels. Kernels access memory registered with RegisterMemory()
// in place. Other payloads are copied into the device's staging memory on Start(), and out of it
// when their kernel has ended.
//
// Not thread-safe. Start, Finish and Run throw Error after the device has failed, then and on every
// later call. After that the caller owns all memory again and no results are valid.
// Allocates no memory after construction.
#ifndef MILLRACE_EXCHANGE_KERNELS_STREAM_EXECUTOR_H_
#define MILLRACE_EXCHANGE_KERNELS_STREAM_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/write_order.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/kernels/executor_registry.h"
#include "exchange/kernels/kernel_op.h"
#include "millrace/device.h"

namespace millrace::inline exchange {

// Starts the kernels on a device. cuda_launch.cc implements it for CUDA. Tests use an
// implementation that runs the same kernel body (kernel_body.h) on the host.
class KernelLauncher {
 public:
  virtual ~KernelLauncher() = default;
  // Enqueues a kernel for `batch`. Until the kernel has completed, the caller must not change the
  // memory to which the batch points. Does not allocate. Throws Error as `queue` does.
  virtual void Launch(const KernelBatch& batch, Queue& queue) = 0;
};

class StreamExecutor : public ChunkExecutor {
 public:
  // `arrays` must be accessible to the device's kernels; they and the device outlive the executor.
  // A chunk has at most kMaxKernelFloats elements; otherwise throws Error. `order`: of the changes
  // of the weights, outlives the executor; null if nothing else changes them. Launches that only
  // read weights begin after the changes before them and hold up none behind them.
  StreamExecutor(Device& device, std::unique_ptr<KernelLauncher> launcher,
                 const ReplicaArrays& arrays, const CodecConfig& codec = {},
                 const StreamLimits& limits = {}, WriteOrder* order = nullptr);
  // Waits until the device no longer accesses the memory of any operation.
  ~StreamExecutor() override = default;

  // For set-up: announces that payloads will lie in `memory`, which must outlive the executor.
  // Returns true if kernels access them there without a copy.
  bool RegisterMemory(std::span<const std::byte> memory) override;
  MemorySpace& payload_memory() override { return device_.staging(); }

  // Executes `ops` and waits for all started operations to complete.
  void Run(std::span<ChunkOp> ops) override;
  const ReplicaArrays& arrays() const override { return arrays_; }

  // Starts `ops`, which may span several batches: an operation sees the results of earlier ones on
  // its chunk. Blocks only if all launches are in flight.
  void Start(std::span<ChunkOp> ops) override;
  bool is_async() const override { return true; }
  size_t batch_ops() const override { return limits_.launch_ops; }
  // Waits for all started operations to complete.
  void Finish() override;

  // Bytes of payloads that were copied, since construction.
  uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  struct Shared {
    const std::byte* begin;
    const std::byte* end;
    std::unique_ptr<MemoryMapping> mapping;
  };
  // Memory of one launch; reused after the launch has been concluded.
  struct Launch {
    KernelOp* ops = nullptr;
    uint32_t* chains = nullptr;
    std::byte* stage = nullptr;
    Event end;  // reached once the kernel has written all results and no longer reads the batch
    uint32_t chain_count = 0, staged_bytes = 0;
    bool writes_weights = false;  // some operation does
    std::vector<ChunkOp*> asked;  // by index in `ops`
    std::vector<bool> copied_out;
    uint32_t size() const { return static_cast<uint32_t>(asked.size()); }
  };
  // The last operation on a chunk, valid within launch number `launch`.
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
  void FinishOldest();
  // Runs `use`, which uses the queue or its events. If that throws because the device has failed,
  // gives all memory back and throws the same line.
  template <typename Use>
  auto Guard(Use use);
  void ThrowIfFailed() const;
  Launch& open() { return ring_[launched_ % ring_.size()]; }

  Device& device_;
  const std::unique_ptr<KernelLauncher> launcher_;
  const ReplicaArrays arrays_;
  const CodecConfig codec_;
  const StreamLimits limits_;
  WriteOrder* const order_;
  Buffer memory_;  // of all launches, accessible to host and kernels
  std::vector<Launch> ring_;
  std::vector<LastOp> last_;      // by chunk
  std::vector<uint32_t> rounds_;  // by chunk: takes with a random choice
  std::vector<Shared> shared_;
  uint64_t launched_ = 0, concluded_ = 0;  // numbers of launches; the next one is open
  uint64_t copied_bytes_ = 0;
  std::string failure_;  // "" until the device fails
  // The last member: its destructor waits until the device no longer uses the memory above and that
  // of operations.
  const std::unique_ptr<Queue> queue_;
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_STREAM_EXECUTOR_H_
