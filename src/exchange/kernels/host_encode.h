// Conversion between dense floats and the packed parts of a payload (codec.h). It uses intrinsics,
// because narrowing, widening and bitmaps have no portable vector form that compiles well. The SSE
// and AVX2 variants return identical results. With AVX2 and wider sets, merges read packed payloads
// directly (host_fused_merge.h). Packed data needs no alignment; `count` >= 0 elements.
#ifndef MILLRACE_EXCHANGE_KERNELS_HOST_ENCODE_H_
#define MILLRACE_EXCHANGE_KERNELS_HOST_ENCODE_H_

#include <cstddef>
#include <cstdint>

namespace millrace {

// Packs the upper halves of `count` floats. PackBfloat16*() expects floats rounded by
// Bfloat16Codec.
void PackBfloat16Sse(const float* d, int64_t count, std::byte* out);
void PackBfloat16Avx2(const float* d, int64_t count, std::byte* out);
void UnpackBfloat16(const std::byte* in, int64_t count, float* values);

// Packs one byte per element. PackInt8*() expects diffs rounded by Int8Codec{scale}.
void PackInt8Sse(float scale, const float* d, int64_t count, std::byte* out);
void PackInt8Avx2(float scale, const float* d, int64_t count, std::byte* out);
void UnpackInt8(float scale, const std::byte* in, int64_t count, float* values);

// Writes the bitmap of the nonzero elements, SparseBitmapBytes(count) long. Returns their number.
int64_t PackBitmapSse(const float* d, int64_t count, std::byte* out);
int64_t PackBitmapAvx2(const float* d, int64_t count, std::byte* out);

// Number of elements set in a bitmap; -1 if a bit from `count` on is set.
int64_t PresentSse(const std::byte* bitmap, int64_t count);
int64_t PresentAvx2(const std::byte* bitmap, int64_t count);

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_ENCODE_H_
