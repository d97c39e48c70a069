// What the exchange kernels are compared with: the same work on the same streams,
// one fused AVX2 loop for each, written for this and nothing else. They check
// nothing, refuse nothing and tell nothing. Chunks of kChunk elements, each with a
// frame of 4 * kChunk bytes; sizes are whole chunks.
#ifndef MILLRACE_BENCH_EXCHANGE_BENCH_BOUNDS_H_
#define MILLRACE_BENCH_EXCHANGE_BENCH_BOUNDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exchange/kernels/chunk_op.h"
#include "millrace/device.h"

namespace exchange_bench {

inline constexpr int64_t kChunk = 350;  // floats that an Ethernet frame carries
inline constexpr int64_t kFrame = 4 * kChunk;
inline constexpr float kThreshold = 1.645f;  // a tenth of a normal distribution is beyond it

// A frame each, and how many bytes of it are used.
struct Frames {
  explicit Frames(int64_t chunks) : bytes(millrace::HostMemory(), chunks * kFrame), used(chunks) {}
  std::byte* at(int64_t chunk) const { return bytes.get<std::byte>() + chunk * kFrame; }
  const float* floats(int64_t chunk) const { return reinterpret_cast<const float*>(at(chunk)); }
  millrace::Buffer bytes;
  std::vector<uint32_t> used;
};

// The worker's kExchange of float32 with a diff taken: 24 bytes an element.
// (Writing `pending` past the caches took two to four times as long, in cache and
// out of it: chunks start at multiples of 8 bytes, and such stores fill no line at
// their ends. A transport that sends from `pending` would have to fetch it again.)
void BoundExchange(const millrace::ReplicaArrays& arrays, Frames* in);
// kTake by a codec, into frames.
void BoundTake(const millrace::ReplicaArrays& arrays, millrace::Codec codec, Frames* out);
// The master's kMerge.
void BoundMerge(const millrace::ReplicaArrays& arrays, millrace::Codec codec, Frames* in);

}  // namespace exchange_bench

#endif  // MILLRACE_BENCH_EXCHANGE_BENCH_BOUNDS_H_
