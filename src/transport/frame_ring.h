// A bounded queue of frames in preallocated slots, from many threads to one,
// without locks. A producer first takes credits, which are free slots; whoever
// has one may claim a position, fill its slot and publish it. The consumer takes
// frames in the order of their positions and gives slots back in that order, so
// a credit is always for the slot that the next position falls on.
#ifndef MILLRACE_TRANSPORT_FRAME_RING_H_
#define MILLRACE_TRANSPORT_FRAME_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "transport/transport.h"

namespace millrace {

class FrameRing {
 public:
  // Throws Error when there is not enough memory. `frames` is in [1, 2^20].
  FrameRing(size_t frames, size_t max_frame_bytes);

  // Producers, any thread. Up to `wanted` credits; 0 when the ring is full.
  size_t TakeCredits(size_t wanted);
  void ReturnCredits(size_t count) { credits_.fetch_add(count, std::memory_order_seq_cst); }
  bool HasCredit() const { return credits_.load(std::memory_order_seq_cst) > 0; }
  // For `count` credits: positions [result, result + count), all to be filled. Who claimed
  // before may have the credits for which the consumer was done with these slots, and the
  // caller older ones; so it synchronises with all of them.
  uint64_t Claim(size_t count) { return claimed_.fetch_add(count, std::memory_order_acq_rel); }
  // Copies the frame into the slot of a claimed position and publishes it.
  void Fill(uint64_t position, NodeId from, const OutFrame& frame);

  // The consumer, one thread.
  bool Ready() const { return SlotAt(next_)->published.load(std::memory_order_acquire) > next_; }
  // The next frame, if Ready(); it stays in its slot until Release().
  InFrame Take();
  // All slots.
  std::span<const std::byte> memory() const { return {memory_.get<std::byte>(), memory_.bytes()}; }
  // Gives back the slots of all frames taken; returns how many.
  size_t Release();

 private:
  struct Slot {
    std::atomic<uint64_t> published{0};  // the position of its frame + 1
    uint32_t bytes = 0;
    NodeId from = 0;
    std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
  };
  static_assert(sizeof(Slot) == 16, "frames begin on multiples of 8 bytes");

  Slot* SlotAt(uint64_t position) const {
    return reinterpret_cast<Slot*>(memory_.get<std::byte>() + (position & mask_) * stride_);
  }

  uint64_t mask_;
  size_t stride_;
  Buffer memory_;
  alignas(64) std::atomic<uint64_t> credits_;
  alignas(64) std::atomic<uint64_t> claimed_{0};
  alignas(64) uint64_t next_ = 0;  // position of the frame to take next
  uint64_t released_ = 0;          // positions below this were given back
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_FRAME_RING_H_
