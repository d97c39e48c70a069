// A batch of operations (chunk_op.h) in the form that a kernel reads: plain structs in memory that
// the host and the kernel's processor can both access. stream_executor.h builds batches,
// kernel_body.h executes them.
#ifndef MILLRACE_EXCHANGE_KERNELS_KERNEL_OP_H_
#define MILLRACE_EXCHANGE_KERNELS_KERNEL_OP_H_

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "exchange/kernels/alignment.h"
#include "exchange/kernels/codec.h"

namespace millrace::inline exchange {

inline constexpr uint32_t kNoOp = UINT32_MAX;

// Blocks of threads that carry out a batch. Payloads cross the bus to the host, which this many
// blocks keep busy; all other multiprocessors are left to solvers.
inline constexpr uint32_t kMaxBlocks = 32;

// One operation. `in` and `out` are addresses valid in the kernel, multiples of 4.
struct KernelOp {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  int64_t begin = 0;   // first element of the chunk
  uint32_t count = 0;  // elements of the chunk, at least 1
  uint32_t in_bytes = 0;
  uint32_t staleness = 0;
  float share = 1;
  uint32_t seed = 0;  // for SparseChoice::kRandom (sparse_choice.h)
  // Index of the next operation on the same chunk in this batch, or kNoOp.
  uint32_t next = kNoOp;
  ChunkOpKind kind = ChunkOpKind::kRead;
  Codec codec = Codec::kFloat32;
  bool acknowledged = false, take = false, drop_rest = false;

  // Set by the kernel. `scale` is also an input for kEncodePending.
  Codec out_codec = Codec::kFloat32;
  uint8_t result = 0;
  uint32_t out_bytes = 0;
  float scale = 0;
};

// The operations on one chunk form a chain, in the order in which they were started. Different
// chains touch different chunks and may run concurrently.
struct KernelBatch {
  KernelOp* ops = nullptr;
  const uint32_t* chains = nullptr;  // first operation of each chain
  uint32_t chain_count = 0;
  // Arrays of the replica, in memory accessible to the kernel; null as in ReplicaArrays.
  float* weights = nullptr;
  float* base = nullptr;
  float* pending = nullptr;
  float* rule_state = nullptr;
  int64_t state_stride = 0;  // from a float of an element's state to the next
  CodecConfig codec = {};    // the parameters of kSparse
  uint32_t stage_bytes = 0;  // scratch per block

  uint32_t blocks() const { return chain_count < kMaxBlocks ? chain_count : kMaxBlocks; }
};

// Number of words in the bitmap of a chunk.
MILLRACE_HOST_DEVICE constexpr uint32_t SparseWords(int64_t floats) {
  return SparseBitmapBytes(floats) / 4;
}

// Upper bound in bytes for a valid payload of a chunk, in any codec. The largest is a sparse one
// with all elements present.
MILLRACE_HOST_DEVICE constexpr uint32_t MaxEncodedBytes(int64_t floats) {
  return static_cast<uint32_t>(4 * floats) + SparseBitmapBytes(floats) + kInt8ScaleBytes;
}

// Scratch of a block: a payload, then two words per bitmap word, then the sums of an alignment.
MILLRACE_HOST_DEVICE constexpr uint32_t StageWordsAt(int64_t floats) {
  return (MaxEncodedBytes(floats) + 15) / 16 * 16;
}
MILLRACE_HOST_DEVICE constexpr uint32_t StageSumsAt(int64_t floats) {
  return StageWordsAt(floats) + 2 * 4 * SparseWords(floats);
}
MILLRACE_HOST_DEVICE constexpr uint32_t StageBytes(int64_t floats) {
  return StageSumsAt(floats) + sizeof(AlignmentSums);
}

// Maximum number of elements per chunk. The scratch must fit the shared memory of a thread block on
// every GPU: 48 KiB, less what the block itself needs.
inline constexpr int64_t kMaxKernelFloats = 8192;
static_assert(StageBytes(kMaxKernelFloats) <= 40 * 1024);

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_KERNEL_OP_H_
