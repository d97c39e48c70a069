// How large the elements of an encoded diff are, from a few of them.
#ifndef MILLRACE_EXCHANGE_KERNELS_PAYLOAD_MAGNITUDE_H_
#define MILLRACE_EXCHANGE_KERNELS_PAYLOAD_MAGNITUDE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "exchange/kernels/chunk_op.h"

namespace millrace {

// An estimate of the mean of |d| over the `floats` elements of a payload that an executor has
// accepted: from up to 16 elements, evenly spread; of kSparse from the first 16 present ones and
// their number. Reads host memory; takes some 20 ns.
float SampledMagnitude(Codec codec, std::span<const std::byte> payload, int64_t floats);

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_PAYLOAD_MAGNITUDE_H_
