// Diffs that their master may not merge yet: a position of the chunk, sent from the weights
// themselves, waits to leave. Its header says which diffs the weights held when the frame was
// made, so they must hold no others until the bytes have been read.
//
// Internal to exchange/; not thread-safe. Allocates nothing after construction.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_DEFERRED_DIFFS_H_
#define MILLRACE_EXCHANGE_PROTOCOL_DEFERRED_DIFFS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "exchange/protocol/frame.h"

namespace millrace {

class DeferredDiffs {
 public:
  // Room for `capacity` diffs of at most `payload_bytes` each, in `memory`, the host's, which
  // outlives this object.
  DeferredDiffs(size_t capacity, size_t payload_bytes, MemorySpace& memory);

  bool empty() const { return waiting_.empty(); }
  bool full() const { return free_.empty(); }
  // All payloads.
  std::span<const std::byte> payloads() const {
    return {payloads_.get<std::byte>(), payloads_.bytes()};
  }
  // Copies the diff. REQUIRES: !full(), a payload of at most `payload_bytes`.
  void Add(const FrameView& frame);

  // The diffs that wait, oldest first; their payloads are this object's.
  std::span<const FrameView> waiting() const { return waiting_; }
  // Gives the memory of all that wait back and keeps those for which `stays` returns true.
  template <typename Stays>
  void Keep(Stays stays) {
    size_t kept = 0;
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (stays(waiting_[i])) {
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
  std::vector<uint32_t> places_;  // by index in waiting_: where its payload lies
  std::vector<uint32_t> free_;    // places, a stack
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_DEFERRED_DIFFS_H_
