// What arrives at a raw socket, in memory that is shared with the kernel
// (TPACKET_V3): it lays packets into blocks one behind the other, and hands a block over
// when it is full or has been open for a millisecond. Blocks form a ring, used and given
// back in order; while none is free, the kernel drops what arrives. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_PACKET_RING_H_
#define MILLRACE_TRANSPORT_PACKET_RING_H_

#include <linux/if_packet.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file_descriptor.h"

namespace millrace {

class PacketRing {
 public:
  // `fd` is a packet socket that is not bound yet, which is then owned. `block_bytes` is
  // a multiple of the page. Throws Error with one line if there is no such ring.
  PacketRing(FileDescriptor fd, size_t block_bytes, size_t blocks);
  ~PacketRing();
  PacketRing(const PacketRing&) = delete;
  PacketRing& operator=(const PacketRing&) = delete;

  int fd() const { return fd_.get(); }
  // All blocks. (These are pages of the kernel's: a device may not be able to map them.)
  std::span<const std::byte> memory() const { return {memory_, block_bytes_ * blocks_}; }

  // Calls take(packet, position) for each packet of the next block, if there is one, and
  // returns whether there was. A packet begins with its Ethernet header, which ends on a
  // multiple of 8 bytes; empty: it was longer than a block. The block stays in use until
  // it is given back if `take` has returned true for one of its packets.
  template <typename Take>
  bool ReadBlock(Take take);
  // All blocks before `position` are free again.
  void GiveBack(uint64_t position);
  uint64_t head() const { return head_; }  // the position of the block to be read next
  bool holding() const { return tail_ != head_; }
  // Packets that the kernel dropped for lack of a block since the last call, as far as
  // the blocks that were read tell.
  uint64_t TakeOverruns();

  // What a packet of `bytes` (with its Ethernet header) takes up in a block, and what a
  // block takes up itself, at most.
  static constexpr size_t BytesInBlock(size_t bytes) { return bytes + 104; }
  static constexpr size_t kBlockHeadBytes = 64;

 private:
  tpacket_block_desc* BlockAt(uint64_t position) const {
    return reinterpret_cast<tpacket_block_desc*>(memory_ + position % blocks_ * block_bytes_);
  }
  // The next block if the kernel has handed it over; else null.
  tpacket_block_desc* Next() const;

  FileDescriptor fd_;
  const size_t block_bytes_, blocks_;
  std::byte* memory_ = nullptr;
  uint64_t head_ = 0, tail_ = 0;
  bool losing_ = false;
};

template <typename Take>
bool PacketRing::ReadBlock(Take take) {
  tpacket_block_desc* const block = Next();
  if (!block) return false;
  const tpacket_hdr_v1& head = block->hdr.bh1;
  if (head.block_status & TP_STATUS_LOSING) losing_ = true;
  bool kept = false;
  const auto* at = reinterpret_cast<const std::byte*>(block) + head.offset_to_first_pkt;
  for (uint32_t left = head.num_pkts; left > 0; --left) {
    const auto* packet = reinterpret_cast<const tpacket3_hdr*>(at);
    const bool whole = packet->tp_snaplen == packet->tp_len;
    kept |= take(std::span(at + packet->tp_mac, whole ? packet->tp_snaplen : 0), head_);
    at += packet->tp_next_offset;
  }
  ++head_;
  if (!kept && tail_ + 1 == head_) GiveBack(head_);
  return true;
}

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_PACKET_RING_H_
