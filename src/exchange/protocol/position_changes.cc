#include "exchange/protocol/position_changes.h"

#include <glog/logging.h>

#include <algorithm>

#include "exchange/kernels/codec.h"
#include "exchange/kernels/sparse_choice.h"
#include "exchange/kernels/sparse_gaps.h"

namespace millrace::inline exchange {

PositionChanges::PositionChanges(const ReplicaArrays& arrays, double share)
    : arrays_(arrays),
      chunk_floats_(arrays.chunk_floats),
      share_(share),
      last_(static_cast<size_t>(arrays.size)),
      has_last_(static_cast<size_t>(arrays.chunks())),
      sent_change_(has_last_.size()),
      change_room_(MaxGapBytes(ChosenCount(share, chunk_floats_), chunk_floats_, true)),
      changes_(has_last_.size() * change_room_),
      change_bytes_(has_last_.size()),
      difference_(static_cast<size_t>(chunk_floats_)),
      magnitudes_(difference_.size()) {}

void PositionChanges::SetLast(uint32_t chunk, const float* weights) {
  std::copy_n(weights, arrays_.floats_of(chunk), last(chunk));
  has_last_[chunk] = true;
  sent_change_[chunk] = false;
}

void PositionChanges::Forget(uint32_t chunk) { has_last_[chunk] = sent_change_[chunk] = false; }

std::span<const std::byte> PositionChanges::Make(uint32_t chunk, const float* weights) {
  const int64_t count = arrays_.floats_of(chunk);
  float* const before = last(chunk);
  for (int64_t i = 0; i < count; ++i) {
    difference_[i] = Bfloat16Codec().Round(weights[i] - before[i]);
    const int32_t magnitude = Magnitude(difference_[i]);
    magnitudes_[i] = magnitude < kInfinityBits ? magnitude : 0;
  }
  ChooseElements(SparseChoice::kTop, share_, 0, count, magnitudes_.data());
  GapWriter writer({changes_.data() + chunk * change_room_, change_room_}, true);
  for (int64_t i = 0; i < count; ++i) {
    if (magnitudes_[i] == 0) continue;
    writer.Add(i, difference_[i]);
    before[i] += difference_[i];
  }
  CHECK(!writer.overflows());
  sent_change_[chunk] = true;
  change_bytes_[chunk] = writer.bytes();
  return last_change(chunk);
}

bool PositionChanges::Apply(uint32_t chunk, std::span<const std::byte> change,
                            float* weights) const {
  const int64_t count = arrays_.floats_of(chunk);
  std::copy_n(last(chunk), count, weights);
  return ForEachByGap(change, true, count, [&](int64_t i, float value) { weights[i] += value; });
}

}  // namespace millrace::inline exchange
