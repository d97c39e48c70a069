// Payloads (codec.h) to and from dense floats, in host memory, with the
// instruction sets of this processor.
#ifndef MILLRACE_EXCHANGE_KERNELS_HOST_PAYLOAD_H_
#define MILLRACE_EXCHANGE_KERNELS_HOST_PAYLOAD_H_

#include <cstddef>
#include <cstdint>

#include "base/simd.h"
#include "exchange/kernels/chunk_op.h"

namespace millrace {

struct Encoded {
  Codec codec;     // kFloat32 for a kSparse that would not be smaller, else as asked
  uint32_t bytes;  // that were written
};

// Writes the payload of `count` > 0 diffs d that the codec has rounded; with
// kInt8, by `scale`. `room` bytes at `out` suffice: MaxPayloadBytes() does always.
Encoded EncodePayload(Codec codec, const float* d, int64_t count, float scale, std::byte* out,
                      uint32_t room, Simd simd);

// Checks the payload of `count` elements at `in`: 0, kMalformed or kNonFinite. Reads
// `bytes` bytes at most.
uint8_t CheckPayload(Codec codec, const std::byte* in, uint32_t bytes, int64_t count, Simd simd);

// The elements of a payload that was checked: `scratch`, which has room for them,
// or `in` itself.
const float* DecodePayload(Codec codec, const std::byte* in, int64_t count, float* scratch);

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_PAYLOAD_H_
