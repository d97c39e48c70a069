// Estimates the magnitude of an encoded diff from a sample of its elements.
#ifndef MILLRACE_EXCHANGE_KERNELS_PAYLOAD_MAGNITUDE_H_
#define MILLRACE_EXCHANGE_KERNELS_PAYLOAD_MAGNITUDE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "exchange/kernels/chunk_op.h"

namespace millrace::inline exchange {

// Estimates the mean of |d| over the `floats` elements of a payload that an executor has accepted.
// Uses up to 16 evenly spaced elements; for kSparse, the first 16 present elements and the number
// of present ones. The payload must be in host memory. Takes about 20 ns.
float SampledMagnitude(Codec codec, std::span<const std::byte> payload, int64_t floats);

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_PAYLOAD_MAGNITUDE_H_
