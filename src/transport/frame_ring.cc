#include "transport/frame_ring.h"

#include <bit>
#include <new>

#include "base/threads/cache_line.h"

namespace millrace::inline transport {

FrameRing::FrameRing(size_t frames, size_t max_frame_bytes)
    : mask_(std::bit_ceil(frames) - 1),
      // Whole cache lines, so that two producers never write to the same line.
      stride_(WholeCacheLines(sizeof(Slot) + max_frame_bytes)),
      memory_(HostMemory(), (mask_ + 1) * stride_),
      credits_(frames) {
  for (uint64_t position = 0; position <= mask_; ++position) new (SlotAt(position)) Slot;
}

size_t FrameRing::TakeCredits(size_t wanted) {
  uint64_t credits = credits_.load(std::memory_order_seq_cst);
  while (credits > 0) {
    const uint64_t taken = credits < wanted ? credits : wanted;
    // Synchronizes with ReturnCredits: the consumer has released as many slots.
    if (credits_.compare_exchange_weak(credits, credits - taken, std::memory_order_seq_cst)) {
      return taken;
    }
  }
  return 0;
}

void FrameRing::Fill(uint64_t position, NodeId from, const OutFrame& frame) {
  Slot* slot = SlotAt(position);
  slot->bytes = static_cast<uint32_t>(frame.bytes());
  slot->from = from;
  frame.CopyTo(slot->data());
  slot->published.store(position + 1, std::memory_order_release);
}

InFrame FrameRing::Take() {
  Slot* slot = SlotAt(next_++);
  return {slot->from, {slot->data(), slot->bytes}};
}

size_t FrameRing::Release() {
  const size_t count = next_ - released_;
  released_ = next_;
  if (count) ReturnCredits(count);
  return count;
}

}  // namespace millrace::inline transport
