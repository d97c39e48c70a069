// Payloads (codec.h) in host memory.
#ifndef MILLRACE_EXCHANGE_KERNELS_HOST_PAYLOAD_H_
#define MILLRACE_EXCHANGE_KERNELS_HOST_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/simd.h"
#include "exchange/kernels/chunk_op.h"

namespace millrace::inline exchange {

struct Encoded {
  Codec codec;     // as requested, or kFloat32 if kSparse would not be smaller
  uint32_t bytes;  // bytes written
};

// Encodes `count` > 0 diffs d, which the codec has rounded; for kInt8, with `scale`. `out` has
// `room` bytes; MaxPayloadBytes() is always enough.
Encoded EncodePayload(Codec codec, const float* d, int64_t count, float scale, std::byte* out,
                      uint32_t room, Simd simd);

// Validates a payload of `count` elements. Returns 0, kMalformed or kNonFinite. Reads at most
// `bytes` bytes.
uint8_t CheckPayload(Codec codec, const std::byte* in, uint32_t bytes, int64_t count, Simd simd);

// Encodes `count` > 0 weights as `codec`, which is not kSparse. Weights of mixed magnitude, most of
// which one scale would round away in places, are encoded as kBfloat16. Weights that the codec
// cannot hold (overflow() in codec.h) are encoded as kFloat32, all `count` of them. `out` does not
// overlap `weights` and has room for kFloat32.
Encoded EncodeWeights(Codec codec, const float* weights, int64_t count, std::byte* out, Simd simd);

// Decodes a payload of the codec's size into `count` floats; not kSparse. The values may be other
// than finite.
void DecodeWeights(Codec codec, const std::byte* in, int64_t count, float* weights, Simd simd);

// Decodes a checked sparse payload into `count` floats.
void DecodeSparse(const std::byte* in, uint32_t bytes, int64_t count, float* values);

// Estimates the mean of |d| over the `floats` elements of a payload that an executor has accepted.
// Uses up to 16 evenly spaced elements; for kSparse, the first 16 present elements and the number
// of present ones. The payload must be in host memory. Takes about 20 ns.
float SampledMagnitude(Codec codec, std::span<const std::byte> payload, int64_t floats);

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_PAYLOAD_H_
