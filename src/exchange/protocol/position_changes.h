// Positions that travel as the change since the position before, with the elements that differ most
// only. What a change leaves out, it leaves with the master, and a later one has it. Both ends keep
// the weights of the last position. Internal to exchange/; not thread-safe. Allocates nothing after
// construction.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_POSITION_CHANGES_H_
#define MILLRACE_EXCHANGE_PROTOCOL_POSITION_CHANGES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/kernels/chunk_op.h"

namespace millrace::inline exchange {

class PositionChanges {
 public:
  // A change has `share` of a chunk's elements, above 0 and at most 1. Keeps a copy of all weights.
  PositionChanges(const ReplicaArrays& arrays, double share);

  // A position of the chunk was taken, or sent in full, with these weights.
  void SetLast(uint32_t chunk, const float* weights);
  // The last position is unknown.
  void Forget(uint32_t chunk);
  // Whether the last position is known.
  bool has_last(uint32_t chunk) const { return has_last_[chunk]; }
  // Whether the last position is known, and was sent as a change.
  bool sent_change(uint32_t chunk) const { return sent_change_[chunk]; }

  // The change from the last position to these weights, as far as it travels, which makes the next
  // last position. As short gaps (sparse_gaps.h). REQUIRES: has_last(chunk). Valid until the next
  // one of the chunk.
  std::span<const std::byte> Make(uint32_t chunk, const float* weights);
  // The change that was made last, to be sent again.
  std::span<const std::byte> last_change(uint32_t chunk) const {
    return {changes_.data() + chunk * change_room_, change_bytes_[chunk]};
  }
  // Writes the weights of the position that a change leads to. Returns false if it has another
  // format. REQUIRES: has_last(chunk).
  bool Apply(uint32_t chunk, std::span<const std::byte> change, float* weights) const;

 private:
  float* last(uint32_t chunk) { return last_.data() + int64_t{chunk} * chunk_floats_; }
  const float* last(uint32_t chunk) const { return last_.data() + int64_t{chunk} * chunk_floats_; }

  const ReplicaArrays& arrays_;
  const int64_t chunk_floats_;
  const double share_;
  std::vector<float> last_;                   // weights of the last positions
  std::vector<bool> has_last_, sent_change_;  // by chunk
  const size_t change_room_;                  // bytes of the longest change
  std::vector<std::byte> changes_;            // by chunk, each with this room
  std::vector<uint32_t> change_bytes_;        // by chunk
  std::vector<float> difference_;             // of one chunk
  std::vector<int32_t> magnitudes_;           // the same
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_POSITION_CHANGES_H_
