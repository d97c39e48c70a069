// Outgoing frames of an exchange, in memory that is allocated once.
//
// A slot holds a frame's head (header and acknowledgement vector) and room for one payload. The
// maker of a frame takes a slot, may fill its payload, and posts it. Drain returns posted frames:
// control frames (all but positions and diffs) before the others, each group in FIFO order. The
// transport releases each slot when the frame's bytes have left.
//
// Positions, diffs and control frames share the slots under limits, so that none of them can take
// all slots, however long its frames wait for a transport. Not thread-safe.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_OUTBOX_H_
#define MILLRACE_EXCHANGE_PROTOCOL_OUTBOX_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/protocol/frame.h"
#include "millrace/device.h"

namespace millrace::inline exchange {

// A frame to send. Its two pieces stay unchanged until the slot is released.
struct PostedFrame {
  uint16_t destination = kAllNodes;
  std::span<const std::byte> head;
  std::span<const std::byte> payload;
  // Room for a trailer, directly behind a payload that lies in the slot; else empty.
  std::span<std::byte> room;
  uint32_t slot = 0;
};

class Outbox {
 public:
  // Purpose of a slot. Positions hold at most half of the slots, diffs five eighths, both together
  // seven eighths.
  enum class Use : uint8_t { kPosition, kDiff, kRest };

  // Each of `slots` payloads has `trailer_bytes` of room behind it. `memory` is host memory, holds
  // the payloads, and outlives the outbox.
  Outbox(size_t slots, size_t ack_bytes, size_t payload_bytes, size_t trailer_bytes = 0,
         MemorySpace& memory = HostMemory());

  size_t free() const { return free_.size(); }
  size_t slots() const { return frames_.size(); }
  // Posted frames that wait for Drain: all of them, and the control frames only.
  size_t posted() const { return control_.count + weights_.count; }
  size_t control_posted() const { return control_.count; }
  size_t payload_bytes() const { return payload_bytes_; }

  // Number of slots that may be taken for `use` now.
  size_t Room(Use use) const {
    size_t left = std::min(left_[static_cast<size_t>(use)], free_.size());
    if (use == Use::kDiff) left -= std::min(left, reserved_diffs_);
    return use == Use::kRest ? left : std::min(left, weights_left_);
  }
  // If `evenly`, limits diffs to three eighths of the slots, so that as many positions as diffs
  // leave while frames wait for the transport. Otherwise a node that sends more diffs sends fewer
  // positions, and its own chunks are exchanged ever less often.
  void ShareEvenly(bool evenly);
  // Returns a free slot. REQUIRES: Room(use) > 0.
  uint32_t Take(Use use);
  // Whether `slot` holds a position or diff of `chunk` that has not been released.
  bool Holds(uint32_t slot, uint32_t chunk) const { return chunk_in_[slot] == chunk; }
  // 8-byte aligned, payload_bytes() long.
  std::byte* payload(uint32_t slot) { return payloads_.get<std::byte>() + slot * payload_stride_; }
  // Memory of all payloads, for registration.
  std::span<const std::byte> payloads() const {
    return {payloads_.get<std::byte>(), payloads_.bytes()};
  }
  // Encodes the frame and queues it. `payload` may lie in the slot or elsewhere.
  void Post(uint32_t slot, const FrameHeader& header, std::span<const std::byte> acks,
            std::span<const std::byte> payload);
  // Moves up to out.size() frames to `out` and returns their number.
  size_t Drain(std::span<PostedFrame> out);
  void Release(uint32_t slot) {
    ++left_[static_cast<size_t>(uses_[slot])];
    weights_left_ += uses_[slot] != Use::kRest;
    chunk_in_[slot] = kNoChunk;
    free_.push_back(slot);
  }

 private:
  // Ring of the slots of posted frames.
  struct Queue {
    explicit Queue(size_t size) : ring(size) {}
    void Push(uint32_t slot) { ring[Wrapped(begin + count++)] = slot; }
    // REQUIRES: count > 0.
    uint32_t Pop() {
      const uint32_t slot = ring[begin];
      begin = Wrapped(begin + 1);
      --count;
      return slot;
    }
    // `at` modulo the size of the ring, for `at` below twice that size. Faster than a division.
    size_t Wrapped(size_t at) const { return at < ring.size() ? at : at - ring.size(); }

    std::vector<uint32_t> ring;
    size_t begin = 0, count = 0;
  };

  std::byte* head(uint32_t slot) { return heads_.data() + slot * head_stride_; }

  const size_t head_stride_, payload_bytes_, trailer_bytes_, payload_stride_;
  std::vector<std::byte> heads_;
  Buffer payloads_;
  std::vector<PostedFrame> frames_;  // by slot, as the next two
  std::vector<Use> uses_;            // valid for taken slots
  std::vector<uint32_t> chunk_in_;   // chunk of the posted position or diff; else kNoChunk
  std::array<size_t, 3> left_;       // by use: slots that it may still take
  size_t weights_left_;              // the same for positions and diffs together
  size_t reserved_diffs_ = 0;        // reduction of the limit of diffs, in slots
  std::vector<uint32_t> free_;       // stack
  Queue control_, weights_;
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_OUTBOX_H_
