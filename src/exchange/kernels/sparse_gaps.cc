#include "exchange/kernels/sparse_gaps.h"

#include <algorithm>
#include <bit>

#include "exchange/kernels/host_types.h"

namespace millrace::inline exchange {

void GapWriter::Add(int64_t i, float value) {
  const size_t width = GapValueBytes(is_short_);
  const int64_t gap = i - next_;
  const auto skips = static_cast<size_t>(gap / UINT8_MAX);
  overflows_ |= room_.size() - at_ < skips + 1 + width;
  if (overflows_) return;
  std::fill_n(room_.data() + at_, skips, std::byte{UINT8_MAX});
  at_ += skips;
  room_[at_++] = static_cast<std::byte>(gap % UINT8_MAX);
  std::memcpy(room_.data() + at_, reinterpret_cast<const std::byte*>(&value) + (4 - width), width);
  at_ += width;
  next_ = i + 1;
}

SparseForm WriteGaps(std::span<const std::byte> sparse, int64_t count, std::span<std::byte> room,
                     uint32_t* bytes) {
  const SparsePayload from(sparse.data(), static_cast<uint32_t>(sparse.size()), count);
  const bool is_short =
      std::all_of(from.begin, from.end, [](float value) { return (ToBits(value) & 0xffff) == 0; });
  *bytes = 0;
  // With float32, a gap takes as many bytes as eight bits of the bitmap, or more.
  if (!is_short && from.end - from.begin >= SparseBitmapBytes(count)) return SparseForm::kBitmap;
  GapWriter writer(room.first(std::min(room.size(), sparse.size())), is_short);
  const float* next = from.begin;
  for (int64_t i = 0; i < count; i += 32) {
    for (uint32_t bits = from.BitsAt(i); bits != 0; bits &= bits - 1) {
      writer.Add(i + std::countr_zero(bits), *next++);
    }
  }
  *bytes = writer.bytes();
  if (writer.overflows() || writer.bytes() >= sparse.size()) return SparseForm::kBitmap;
  return is_short ? SparseForm::kShortGaps : SparseForm::kGaps;
}

uint32_t ReadGaps(std::span<const std::byte> payload, bool is_short, int64_t count,
                  std::byte* out) {
  const uint32_t bitmap = SparseBitmapBytes(count);
  const int64_t end = 4 * count;
  int64_t at = bitmap;
  std::fill_n(out, bitmap, std::byte{0});
  const bool well_formed = ForEachByGap(payload, is_short, count, [&](int64_t i, float value) {
    if (at + 4 <= end) {
      out[i / 8] |= static_cast<std::byte>(1 << i % 8);
      std::memcpy(out + at, &value, 4);
    }
    at += 4;
  });
  return well_formed && at < end ? static_cast<uint32_t>(at) : 0;
}

}  // namespace millrace::inline exchange
