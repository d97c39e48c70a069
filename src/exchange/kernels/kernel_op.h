// A batch of operations (chunk_op.h) as a kernel reads it: plain structs in memory that
// the host and the kernel's processor both reach. stream_executor.h makes batches,
// kernel_body.h carries them out.
#ifndef MILLRACE_EXCHANGE_KERNELS_KERNEL_OP_H_
#define MILLRACE_EXCHANGE_KERNELS_KERNEL_OP_H_

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "exchange/kernels/codec.h"

namespace millrace {

inline constexpr uint32_t kNoOp = UINT32_MAX;

// One operation. `in` and `out` as the kernel reaches them, on multiples of 4 bytes.
struct KernelOp {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  int64_t begin = 0;   // the chunk's first element
  uint32_t count = 0;  // its elements, at least 1
  uint32_t in_bytes = 0;
  uint32_t staleness = 0;
  float share = 1;
  // The operation of the batch that comes after this one on the same chunk, or kNoOp.
  uint32_t next = kNoOp;
  ChunkOpKind kind = ChunkOpKind::kRead;
  Codec codec = Codec::kFloat32;
  bool acknowledged = false, take = false;

  // What the kernel sets. `scale` is also read, for kEncodePending.
  Codec out_codec = Codec::kFloat32;
  uint8_t result = 0;
  uint32_t out_bytes = 0;
  float scale = 0;
};

// Operations on one chunk form a chain, in the order in which they were asked for; chains
// touch different chunks and may run at the same time.
struct KernelBatch {
  KernelOp* ops = nullptr;
  const uint32_t* chains = nullptr;  // the first operation of each
  uint32_t chain_count = 0;
  // The replica's, in the kernel's memory; null as ReplicaArrays says.
  float* weights = nullptr;
  float* base = nullptr;
  float* pending = nullptr;
  float* rule_state = nullptr;
  float threshold = 0;       // of kSparse
  uint32_t stage_bytes = 0;  // of scratch that each chain is carried out with
};

// The words of a chunk's bitmap.
MILLRACE_HOST_DEVICE constexpr uint32_t SparseWords(int64_t floats) {
  return SparseBitmapBytes(floats) / 4;
}

// The longest payload that a chunk can have, in any codec: a sparse one with every element.
MILLRACE_HOST_DEVICE constexpr uint32_t LongestPayloadBytes(int64_t floats) {
  return static_cast<uint32_t>(4 * floats) + SparseBitmapBytes(floats) + kInt8ScaleBytes;
}

// The scratch of a chain: a payload, then two words for each word of a bitmap.
MILLRACE_HOST_DEVICE constexpr uint32_t StageWordsAt(int64_t floats) {
  return (LongestPayloadBytes(floats) + 15) / 16 * 16;
}
MILLRACE_HOST_DEVICE constexpr uint32_t StageBytes(int64_t floats) {
  return StageWordsAt(floats) + 2 * 4 * SparseWords(floats);
}

// Chunks have so many elements at most, so that their scratch fits into the memory that a
// block of threads shares on every GPU (48 KiB, less what the block itself needs).
inline constexpr int64_t kMostKernelFloats = 8192;
static_assert(StageBytes(kMostKernelFloats) <= 40 * 1024);

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_KERNEL_OP_H_
