#include "transport/packet/ring.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>

#include "base/error.h"
#include "transport/socket_option.h"

namespace millrace::inline transport {
namespace {

// The kernel's shortest block timeout.
constexpr unsigned kBlockOpenMs = 1;

std::atomic_ref<uint32_t> StatusOf(tpacket_block_desc* block) {
  return std::atomic_ref(block->hdr.bh1.block_status);
}

}  // namespace

PacketRing::PacketRing(FileDescriptor fd, size_t block_bytes, size_t blocks)
    : fd_(std::move(fd)), block_bytes_(block_bytes), blocks_(blocks) {
  const std::string field =
      StrCat("transport packet: ring_blocks=", blocks, " of block_bytes=", block_bytes, ": ");
  if (!SetSocketInt(this->fd(), SOL_PACKET, PACKET_VERSION, TPACKET_V3)) {
    throw Error(field, "this kernel has no such rings: ", ErrnoText(errno));
  }
  // TPACKET_V3 packs frames back to back; the kernel only validates tp_frame_size.
  constexpr unsigned kFrameBytes = 2048;
  tpacket_req3 request{};
  request.tp_block_size = static_cast<unsigned>(block_bytes);
  request.tp_block_nr = static_cast<unsigned>(blocks);
  request.tp_frame_size = kFrameBytes;
  request.tp_frame_nr = static_cast<unsigned>(block_bytes / kFrameBytes * blocks);
  request.tp_retire_blk_tov = kBlockOpenMs;
  if (setsockopt(this->fd(), SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)) != 0) {
    throw Error(field, ErrnoText(errno));
  }
  void* const mapped = mmap(nullptr, block_bytes * blocks, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_POPULATE, this->fd(), 0);
  if (mapped == MAP_FAILED) throw Error(field, ErrnoText(errno));
  memory_ = static_cast<std::byte*>(mapped);
}

PacketRing::~PacketRing() { munmap(memory_, block_bytes_ * blocks_); }

tpacket_block_desc* PacketRing::Next() const {
  if (head_ - tail_ == blocks_) return nullptr;
  tpacket_block_desc* const block = BlockAt(head_);
  const bool ours = StatusOf(block).load(std::memory_order_acquire) & TP_STATUS_USER;
  return ours ? block : nullptr;
}

void PacketRing::GiveBack(uint64_t position) {
  for (; tail_ < position; ++tail_) {
    StatusOf(BlockAt(tail_)).store(TP_STATUS_KERNEL, std::memory_order_release);
  }
}

uint64_t PacketRing::TakeOverruns() {
  if (!losing_) return 0;
  losing_ = false;
  tpacket_stats_v3 counts{};  // reading resets the kernel's counters
  socklen_t length = sizeof(counts);
  getsockopt(fd(), SOL_PACKET, PACKET_STATISTICS, &counts, &length);
  return counts.tp_drops;
}

}  // namespace millrace::inline transport
