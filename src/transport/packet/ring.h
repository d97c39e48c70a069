// The receive ring of a raw socket, in memory shared with the kernel (TPACKET_V3). The kernel
// packs packets back to back into blocks and hands a block over when it is full or has been open
// for a millisecond. Blocks form a ring; they are used and released in order. While no block is
// free, the kernel drops packets. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_PACKET_RING_H_
#define MILLRACE_TRANSPORT_PACKET_RING_H_

#include <linux/if_packet.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "millrace/file_descriptor.h"

namespace millrace::inline transport {

class PacketRing {
 public:
  // Takes ownership of `fd`, a packet socket that is not bound yet. `block_bytes` is a multiple
  // of the page size. Throws Error with one line if the ring cannot be created.
  PacketRing(FileDescriptor fd, size_t block_bytes, size_t blocks);
  ~PacketRing();
  PacketRing(const PacketRing&) = delete;
  PacketRing& operator=(const PacketRing&) = delete;

  int fd() const { return fd_.get(); }
  // Memory of all blocks. The pages belong to the kernel; a device may be unable to map them.
  std::span<const std::byte> memory() const { return {memory_, block_bytes_ * blocks_}; }

  // Calls take(packet, position) for each packet of the next block. Returns false if there is no
  // block. A packet starts with its Ethernet header, which ends at a multiple of 8 bytes; it is
  // empty if the packet did not fit into a block. If `take` returns true for any packet, the
  // block stays in use until GiveBack.
  template <typename Take>
  bool ReadBlock(Take take);
  // Frees all blocks before `position`.
  void GiveBack(uint64_t position);
  uint64_t head() const { return head_; }  // position of the next block to read
  bool holding() const { return tail_ != head_; }
  // Packets that the kernel dropped for lack of a free block since the last call, as far as the
  // blocks read so far report them.
  uint64_t TakeOverruns();

  // Upper bounds on the space in a block: for a packet of `bytes` (with its Ethernet header), and
  // for the block's own header.
  static constexpr size_t BytesInBlock(size_t bytes) { return bytes + 104; }
  static constexpr size_t kBlockHeadBytes = 64;

 private:
  tpacket_block_desc* BlockAt(uint64_t position) const {
    return reinterpret_cast<tpacket_block_desc*>(memory_ + position % blocks_ * block_bytes_);
  }
  // The next block if the kernel has handed it over, else null.
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

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_PACKET_RING_H_
