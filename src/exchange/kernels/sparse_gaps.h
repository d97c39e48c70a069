// The forms in which the present elements of a chunk travel: as the sparse payload of executors
// (codec.h), which has a bit for each element of the chunk, or by the gaps between them, which is
// shorter where few are present.
//
// By gaps, each present element, in order, has
//   uint8      number of absent elements before it, since the last present one or the beginning;
//              255: 255 elements are absent, and the next byte goes on
//   its value  float32, or with short gaps the upper half of a float32
// Functions are thread-safe; they read and write no more than the spans that they are given.
#ifndef MILLRACE_EXCHANGE_KERNELS_SPARSE_GAPS_H_
#define MILLRACE_EXCHANGE_KERNELS_SPARSE_GAPS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "exchange/kernels/codec.h"

namespace millrace::inline exchange {

enum class SparseForm : uint8_t {
  kBitmap,     // as in codec.h
  kGaps,       // values are float32
  kShortGaps,  // values are bfloat16
};

constexpr size_t GapValueBytes(bool is_short) { return is_short ? 2 : 4; }
// The largest payload of `present` elements of `count`, in bytes.
constexpr size_t MaxGapBytes(int64_t present, int64_t count, bool is_short) {
  return static_cast<size_t>(present) * (1 + GapValueBytes(is_short)) +
         static_cast<size_t>(count) / UINT8_MAX;
}

// Appends present elements by gaps. Writes up to `room` bytes; what does not fit makes it overflow.
class GapWriter {
 public:
  GapWriter(std::span<std::byte> room, bool is_short) : room_(room), is_short_(is_short) {}
  // REQUIRES: `i` is above that of the call before. With short gaps, `value` is a bfloat16.
  void Add(int64_t i, float value);
  bool overflows() const { return overflows_; }
  uint32_t bytes() const { return static_cast<uint32_t>(at_); }

 private:
  const std::span<std::byte> room_;
  const bool is_short_;
  size_t at_ = 0;
  int64_t next_ = 0;  // element
  bool overflows_ = false;
};

// Calls `visit(i, value)` for each present element of `count`. Returns false at the first byte that
// is no such payload, after what comes before it.
template <typename Visit>
bool ForEachByGap(std::span<const std::byte> payload, bool is_short, int64_t count, Visit visit) {
  const size_t width = GapValueBytes(is_short);
  size_t at = 0;
  int64_t i = 0;
  while (at < payload.size()) {
    const auto gap = static_cast<uint8_t>(payload[at++]);
    i += gap;
    if (gap == UINT8_MAX) {
      if (at == payload.size() || i >= count) return false;
      continue;
    }
    if (i >= count || payload.size() - at < width) return false;
    float value = 0;
    // Little-endian: the upper half is behind the lower one.
    std::memcpy(reinterpret_cast<std::byte*>(&value) + (4 - width), payload.data() + at, width);
    visit(i++, value);
    at += width;
  }
  return true;
}

// Writes a sparse payload of `count` elements by gaps into `room`: with short gaps if no value
// loses anything. Returns kBitmap, and has written nothing of use, if that is not shorter.
SparseForm WriteGaps(std::span<const std::byte> sparse, int64_t count, std::span<std::byte> room,
                     uint32_t* bytes);

// The inverse. `out` has room for MaxPayloadBytes(count). Returns the bytes of the sparse payload;
// 0 if `payload` has another format, or the sparse payload would be as long as one of float32.
uint32_t ReadGaps(std::span<const std::byte> payload, bool is_short, int64_t count, std::byte* out);

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_SPARSE_GAPS_H_
