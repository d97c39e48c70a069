// Payloads (codec.h) to and from dense floats, in host memory, with the
// instruction sets of this processor.
#ifndef MILLRACE_EXCHANGE_HOST_PAYLOAD_H_
#define MILLRACE_EXCHANGE_HOST_PAYLOAD_H_

#include <cstddef>
#include <cstdint>

#include "base/simd.h"
#include "exchange/chunk_op.h"

namespace millrace {

struct Encoded {
  Codec codec;     // kFloat32 for a kSparse that would not be smaller, else as asked
  uint32_t bytes;  // that were written
};

// Writes the payload of `count` > 0 differences d that the codec has rounded; with
// kInt8, by `scale`. `room` bytes at `out` suffice: MaxPayloadBytes() does always.
Encoded EncodePayload(Codec codec, const float* d, int64_t count, float scale, std::byte* out,
                      uint32_t room, Simd simd);

struct Decoded {
  uint8_t result;       // 0, kMalformed or kNonFinite
  const float* values;  // `count` of them if result is 0: `scratch`, or `in` itself
};

// Checks and decodes the payload of `count` elements at `in`; `scratch` has room
// for them. Reads `bytes` bytes at most, writes nothing but `scratch`.
Decoded DecodePayload(Codec codec, const std::byte* in, uint32_t bytes, int64_t count,
                      float* scratch, Simd simd);

// The same check without decoding, for kBfloat16 and kInt8; needs AVX2.
uint8_t CheckPacked(Codec codec, const std::byte* in, uint32_t bytes, int64_t count);

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_HOST_PAYLOAD_H_
