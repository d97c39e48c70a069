// Received diffs that the master must not merge yet, because a position of the chunk that is sent
// directly from the weights is still in the outbox. The position's header states which diffs the
// weights contained when the frame was made. The weights must contain no others until the
// transport has read them.
//
// Internal to exchange/; not thread-safe. Allocates nothing after construction.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_DEFERRED_DIFFS_H_
#define MILLRACE_EXCHANGE_PROTOCOL_DEFERRED_DIFFS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/protocol/frame.h"
#include "millrace/device.h"

namespace millrace::inline exchange {

class DeferredDiffs {
 public:
  // Room for `capacity` diffs of at most `payload_bytes` each. `memory` is host memory and outlives
  // this object.
  DeferredDiffs(size_t capacity, size_t payload_bytes, MemorySpace& memory);

  bool empty() const { return waiting_.empty(); }
  bool full() const { return free_.empty(); }
  // Memory of all payloads, for registration.
  std::span<const std::byte> payloads() const {
    return {payloads_.get<std::byte>(), payloads_.bytes()};
  }
  // Copies header and payload. REQUIRES: !full(), and a payload of at most `payload_bytes`.
  void Add(const FrameView& frame);

  // Deferred diffs, oldest first. This object owns their payloads.
  std::span<const FrameView> waiting() const { return waiting_; }
  // Calls `is_deferred` for each diff, oldest first, and removes the diffs for which it returns
  // false. A removed payload stays intact until the next Add.
  template <typename Predicate>
  void RetainIf(Predicate is_deferred) {
    size_t kept = 0;
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (is_deferred(waiting_[i])) {
        waiting_[kept] = waiting_[i];
        places_[kept++] = places_[i];
      } else {
        free_.push_back(places_[i]);
      }
    }
    waiting_.resize(kept);
    places_.resize(kept);
  }

 private:
  const size_t stride_;
  Buffer payloads_;
  std::vector<FrameView> waiting_;
  std::vector<uint32_t> places_;  // by index in waiting_: index of its payload in payloads_
  std::vector<uint32_t> free_;    // stack of free payload indices
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_DEFERRED_DIFFS_H_
