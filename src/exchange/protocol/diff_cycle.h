// When a throttled master sends the next position of a chunk.
//
// A worker has one diff of a chunk in flight, and takes the next one when a position acknowledges
// it. Where every frame has to wait for the link, a position that leaves before the diffs that
// answer the last one have arrived acknowledges few of them, and takes the place of diffs. So the
// master waits until each worker that lately sent diffs of the chunk has sent another, but not for
// long: once half of them have, for as long again as that took. A worker that has made no iteration
// since the last position has nothing to send, so while there are more positions than iterations of
// a node, the master does not wait: that would only make the weights of workers older. A cycle
// lasts from one position to the next.
//
// Internal to exchange/; not thread-safe. Times are the exchange's `now`, in ns.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_DIFF_CYCLE_H_
#define MILLRACE_EXCHANGE_PROTOCOL_DIFF_CYCLE_H_

#include <algorithm>
#include <cstdint>

#include "exchange/protocol/damping.h"

namespace millrace::inline exchange {

class DiffCycle {
 public:
  // Positions after which a worker of which no diff was merged is not waited for.
  static constexpr uint64_t kLately = 4;

  // Begins a cycle with a position that is sent at `now`, in which diffs of `expected` workers are
  // waited for.
  void Begin(uint32_t expected, int64_t now, const TrainingClock& clock) {
    begin_ = now;
    iterations_ = static_cast<uint32_t>(clock.cluster);
    expected_ = expected;
    merged_ = 0;
    has_any_ = has_half_ = false;
  }
  // Whether fewer than `spacing` iterations of the cluster have passed since the cycle began.
  bool IsYoung(int64_t spacing, const TrainingClock& clock) const {
    const auto passed = static_cast<int32_t>(static_cast<uint32_t>(clock.cluster) - iterations_);
    return passed >= 0 && passed < spacing;
  }
  // Records that a worker's diff was merged. Each worker has at most one in a cycle.
  void Merged() { ++merged_; }
  // Whether the next position should wait. While fewer than half of the expected workers have sent
  // a diff, a cycle lasts for `least`, or for twice the time that half of them last took, whichever
  // is longer. `usual`: time within which a worker that has progress answers a position. If the
  // first diff comes later, the workers had no progress before, and the cycle is timed from then
  // on.
  bool Waits(int64_t now, int64_t least, int64_t usual, const TrainingClock& clock) {
    if (merged_ >= expected_) return false;
    const int64_t passed = IterationsBetween(iterations_, clock.cluster);
    if (passed < static_cast<int64_t>(clock.members)) return false;
    const int64_t first_half = std::max(least, 2 * half_ns_);
    if (!has_any_ && merged_ > 0) {
      has_any_ = true;
      if (now - begin_ >= std::max(first_half, usual)) begin_ = now;
    }
    if (!has_half_ && 2 * merged_ >= expected_) {
      has_half_ = true;
      half_ns_ = now - begin_;
    }
    return now - begin_ < (has_half_ ? 2 * half_ns_ : first_half);
  }

 private:
  int64_t begin_ = 0;        // of the time in which answers are expected
  uint32_t iterations_ = 0;  // of the cluster when the cycle began, lower 32 bits
  int64_t half_ns_ = 0;      // in which half of the workers answered the last time that half did
  uint32_t expected_ = 0, merged_ = 0;
  bool has_any_ = false;   // Waits has seen an answer in this cycle
  bool has_half_ = false;  // half of the expected workers have answered in this cycle
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_DIFF_CYCLE_H_
