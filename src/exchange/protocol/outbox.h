// The frames that are under way out of an exchange, in memory that was set aside
// once.
//
// A slot holds a frame's head (header and acknowledgement vector) and room for one
// payload. Whoever makes a frame takes a slot, may fill its payload, and posts it;
// Drain hands posted frames out: control frames (all but positions and diffs) before the
// others, in each group first posted first. The transport gives each slot back when the frame's
// bytes have left.
//
// Positions, diffs and all the rest share the slots so that none of them can take
// them all, however long its frames wait for a transport. Not thread-safe.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_OUTBOX_H_
#define MILLRACE_EXCHANGE_PROTOCOL_OUTBOX_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "exchange/protocol/frame.h"

namespace millrace {

// A frame to send: its two pieces stay as they are until the slot is released.
struct PostedFrame {
  uint16_t destination = kAllNodes;
  std::span<const std::byte> head;
  std::span<const std::byte> payload;
  // Right behind a payload that lies in the slot, for whoever transmits the frame.
  std::span<std::byte> room;
  uint32_t slot = 0;
};

class Outbox {
 public:
  // What a slot is taken for. Positions hold at most half of the slots, diffs five
  // eighths, both together seven eighths.
  enum class Use : uint8_t { kPosition, kDiff, kRest };

  // `trailer_bytes` of room are behind each payload. Payloads lie in `memory`, the host's,
  // which outlives the outbox.
  Outbox(size_t slots, size_t ack_bytes, size_t payload_bytes, size_t trailer_bytes = 0,
         MemorySpace& memory = HostMemory());

  size_t free() const { return free_.size(); }
  size_t slots() const { return frames_.size(); }
  // Frames that wait for Drain; of these, control frames.
  size_t posted() const { return control_.count + weights_.count; }
  size_t control_posted() const { return control_.count; }
  size_t payload_bytes() const { return payload_bytes_; }

  // How many slots may be taken for it now.
  size_t Room(Use use) const {
    size_t left = std::min(left_[static_cast<size_t>(use)], free_.size());
    if (use == Use::kDiff) left -= std::min(left, reserved_diffs_);
    return use == Use::kRest ? left : std::min(left, weights_left_);
  }
  // Diffs hold at most three eighths: where frames wait for the transport, as many
  // positions go out as diffs, without which one end's chunks would be exchanged the more
  // often the less the other's are.
  void ShareEvenly(bool evenly);
  // A slot that nobody uses; there must be room.
  uint32_t Take(Use use);
  // Whether `slot` holds a position or difference of the chunk whose bytes have not left.
  bool Holds(uint32_t slot, uint32_t chunk) const { return chunk_in_[slot] == chunk; }
  // 8-byte aligned, payload_bytes() long.
  std::byte* payload(uint32_t slot) { return payloads_.get<std::byte>() + slot * payload_stride_; }
  // All payloads.
  std::span<const std::byte> payloads() const {
    return {payloads_.get<std::byte>(), payloads_.bytes()};
  }
  // Makes the frame and queues it. `payload` may lie in the slot or elsewhere.
  void Post(uint32_t slot, const FrameHeader& header, std::span<const std::byte> acks,
            std::span<const std::byte> payload);
  size_t Drain(std::span<PostedFrame> out);
  void Release(uint32_t slot) {
    ++left_[static_cast<size_t>(uses_[slot])];
    weights_left_ += uses_[slot] != Use::kRest;
    chunk_in_[slot] = kNoChunk;
    free_.push_back(slot);
  }

 private:
  // Slots of posted frames.
  struct Queue {
    explicit Queue(size_t size) : ring(size) {}
    void Push(uint32_t slot) { ring[Wrapped(begin + count++)] = slot; }
    // The first one; there must be one.
    uint32_t Pop() {
      const uint32_t slot = ring[begin];
      begin = Wrapped(begin + 1);
      --count;
      return slot;
    }
    // A place in the ring; `at` is less than twice its size. A division costs more.
    size_t Wrapped(size_t at) const { return at < ring.size() ? at : at - ring.size(); }

    std::vector<uint32_t> ring;
    size_t begin = 0, count = 0;
  };

  std::byte* head(uint32_t slot) { return heads_.data() + slot * head_stride_; }

  const size_t head_stride_, payload_bytes_, trailer_bytes_, payload_stride_;
  std::vector<std::byte> heads_;
  Buffer payloads_;
  std::vector<PostedFrame> frames_;  // by slot, as the next two
  std::vector<Use> uses_;            // of those that are taken
  std::vector<uint32_t> chunk_in_;   // whose position or diff is posted; kNoChunk
  std::array<size_t, 3> left_;       // slots that may be taken, by use
  size_t weights_left_;              // the same of positions and diffs together
  size_t reserved_diffs_ = 0;        // slots that diffs may not take now
  std::vector<uint32_t> free_;       // a stack
  Queue control_, weights_;
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_OUTBOX_H_
