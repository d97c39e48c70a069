// Dense floats to and from the packed parts of a payload (codec.h), with
// intrinsics: narrowing, widening and bitmaps have no portable vector form that
// compiles well. Each function has the same result in both instruction sets.
// Wider sets than SSE merge without unpacking (host_fused_merge.h).
// Packed data may lie anywhere; `count` >= 0 elements.
#ifndef MILLRACE_EXCHANGE_KERNELS_HOST_ENCODE_H_
#define MILLRACE_EXCHANGE_KERNELS_HOST_ENCODE_H_

#include <cstddef>
#include <cstdint>

namespace millrace {

// The upper halves of `count` floats.
void PackBfloat16Sse(const float* d, int64_t count, std::byte* out);
void PackBfloat16Avx2(const float* d, int64_t count, std::byte* out);
void UnpackBfloat16(const std::byte* in, int64_t count, float* values);

// The bytes of diffs that Int8Codec{scale} has rounded.
void PackInt8Sse(float scale, const float* d, int64_t count, std::byte* out);
void PackInt8Avx2(float scale, const float* d, int64_t count, std::byte* out);
void UnpackInt8(float scale, const std::byte* in, int64_t count, float* values);

// Writes the bitmap, SparseBitmapBytes(count), of the elements that are not 0;
// returns how many they are.
int64_t PackBitmapSse(const float* d, int64_t count, std::byte* out);
int64_t PackBitmapAvx2(const float* d, int64_t count, std::byte* out);

// The elements of a bitmap; -1 if it has any from bit `count` on.
int64_t PresentSse(const std::byte* bitmap, int64_t count);
int64_t PresentAvx2(const std::byte* bitmap, int64_t count);

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_ENCODE_H_
