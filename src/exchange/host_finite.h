// Whether a payload's floats are all finite: what is looked at before anything is
// written. Each function has the same result in both instruction sets. The floats
// may lie anywhere; `count` >= 0 elements.
#ifndef MILLRACE_EXCHANGE_HOST_FINITE_H_
#define MILLRACE_EXCHANGE_HOST_FINITE_H_

#include <cstddef>
#include <cstdint>

namespace millrace {

bool AllFiniteSse(const std::byte* floats, int64_t count);
bool AllFiniteAvx2(const std::byte* floats, int64_t count);

// Of bfloat16, two bytes each.
bool AllFiniteBfloat16Sse(const std::byte* halves, int64_t count);
bool AllFiniteBfloat16Avx2(const std::byte* halves, int64_t count);

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_HOST_FINITE_H_
