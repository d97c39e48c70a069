#include "exchange/protocol/outbox.h"

#include <glog/logging.h>

#include <algorithm>

#include "base/threads/cache_line.h"

namespace millrace::inline exchange {

Outbox::Outbox(size_t slots, size_t ack_bytes, size_t payload_bytes, size_t trailer_bytes,
               MemorySpace& memory)
    : head_stride_(kFrameHeaderBytes + ack_bytes),
      payload_bytes_(payload_bytes),
      trailer_bytes_(trailer_bytes),
      payload_stride_(WholeCacheLines(payload_bytes + trailer_bytes)),
      heads_(slots * head_stride_),
      payloads_(memory, slots * payload_stride_),
      frames_(slots),
      uses_(slots),
      chunk_in_(slots, kNoChunk),
      left_{slots / 2, slots * 5 / 8, slots},
      weights_left_(slots * 7 / 8),
      control_(slots),
      weights_(slots) {
  memory.Fill(payloads_.get(), 0, payloads_.bytes());
  free_.reserve(slots);
  for (size_t slot = slots; slot-- > 0;) {
    free_.push_back(static_cast<uint32_t>(slot));
    frames_[slot].slot = static_cast<uint32_t>(slot);
  }
}

uint32_t Outbox::Take(Use use) {
  CHECK(!free_.empty());
  const uint32_t slot = free_.back();
  free_.pop_back();
  uses_[slot] = use;
  --left_[static_cast<size_t>(use)];
  weights_left_ -= use != Use::kRest;
  return slot;
}

void Outbox::Post(uint32_t slot, const FrameHeader& header, std::span<const std::byte> acks,
                  std::span<const std::byte> payload) {
  const std::span<std::byte> out(head(slot), kFrameHeaderBytes + header.ack_bytes);
  EncodeFrame(header, acks, payload, out);
  if (uses_[slot] != Use::kRest) chunk_in_[slot] = header.chunk;
  PostedFrame& frame = frames_[slot];
  frame.destination = header.destination;
  frame.head = out;
  frame.payload = payload;
  if (trailer_bytes_ > 0) {
    const bool in_slot = payload.data() == this->payload(slot);
    frame.room = {this->payload(slot) + payload.size(), in_slot ? trailer_bytes_ : 0};
  }
  (uses_[slot] == Use::kRest ? control_ : weights_).Push(slot);
}

void Outbox::ShareEvenly(bool evenly) { reserved_diffs_ = evenly ? slots() / 4 : 0; }

size_t Outbox::Drain(std::span<PostedFrame> out) {
  const size_t count = std::min(out.size(), posted());
  for (PostedFrame& frame : out.first(count)) {
    frame = frames_[(control_.count > 0 ? control_ : weights_).Pop()];
  }
  return count;
}

}  // namespace millrace::inline exchange
