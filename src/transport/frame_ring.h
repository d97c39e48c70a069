// A bounded lock-free queue of frames in preallocated slots: many producers, one consumer. A
// producer first takes credits, each of which stands for a free slot. It may then claim one
// position per credit, fill the slot and publish it. The consumer takes frames and releases slots
// in the order of positions, so the slot of the next claimed position is always free.
#ifndef MILLRACE_TRANSPORT_FRAME_RING_H_
#define MILLRACE_TRANSPORT_FRAME_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "millrace/device.h"
#include "millrace/transport.h"

namespace millrace::inline transport {

class FrameRing {
 public:
  // Throws Error if memory is short. `frames` is in [1, 2^20].
  FrameRing(size_t frames, size_t max_frame_bytes);

  // Producer side, any thread. Takes up to `wanted` credits; 0: the ring is full.
  size_t TakeCredits(size_t wanted);
  void ReturnCredits(size_t count) { credits_.fetch_add(count, std::memory_order_seq_cst); }
  bool HasCredit() const { return credits_.load(std::memory_order_seq_cst) > 0; }
  // Claims positions [result, result + count) for `count` credits; the caller must fill all of
  // them. The credits that freed these slots may be held by an earlier claimant while the caller
  // holds older ones, so a claim synchronizes with all earlier claims.
  uint64_t Claim(size_t count) { return claimed_.fetch_add(count, std::memory_order_acq_rel); }
  // Copies the frame into the slot of a claimed position and publishes it.
  void Fill(uint64_t position, NodeId from, const OutFrame& frame);

  // Consumer side, one thread.
  bool Ready() const { return SlotAt(next_)->published.load(std::memory_order_acquire) > next_; }
  // Returns the next frame; requires Ready(). The frame stays in its slot until Release().
  InFrame Take();
  // Memory of all slots.
  std::span<const std::byte> memory() const { return {memory_.get<std::byte>(), memory_.bytes()}; }
  // Frees the slots of all frames taken. Returns how many.
  size_t Release();

 private:
  struct Slot {
    std::atomic<uint64_t> published{0};  // position of the slot's frame + 1
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
  alignas(64) uint64_t next_ = 0;  // position of the next frame to take
  uint64_t released_ = 0;          // positions below this are free
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_FRAME_RING_H_
