// Dense floats to and from the packed parts of a payload (codec.h), with
// intrinsics: narrowing, widening and bitmaps have no portable vector form that
// compiles well. Each function has the same result in both instruction sets.
// Packed data may lie anywhere; `count` >= 0 elements.
#ifndef MILLRACE_EXCHANGE_HOST_PACK_H_
#define MILLRACE_EXCHANGE_HOST_PACK_H_

#include <cstddef>
#include <cstdint>

namespace millrace {

// The upper halves of `count` floats.
void PackBfloat16Sse(const float* d, int64_t count, std::byte* out);
void PackBfloat16Avx2(const float* d, int64_t count, std::byte* out);
// Returns the largest magnitude (codec.h), to tell whether all are finite.
int32_t UnpackBfloat16Sse(const std::byte* in, int64_t count, float* values);
int32_t UnpackBfloat16Avx2(const std::byte* in, int64_t count, float* values);
// The same without the values.
int32_t LargestBfloat16Avx2(const std::byte* in, int64_t count);

// The bytes of differences that Int8Codec{scale} has rounded.
void PackInt8Sse(float scale, const float* d, int64_t count, std::byte* out);
void PackInt8Avx2(float scale, const float* d, int64_t count, std::byte* out);
void UnpackInt8Sse(float scale, const std::byte* in, int64_t count, float* values);
void UnpackInt8Avx2(float scale, const std::byte* in, int64_t count, float* values);

// Writes the bitmap, SparseBitmapBytes(count), of the elements that are not 0;
// returns how many they are.
int64_t PackBitmapSse(const float* d, int64_t count, std::byte* out);
int64_t PackBitmapAvx2(const float* d, int64_t count, std::byte* out);

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_HOST_PACK_H_
