// Receives datagrams into a ring of buffers that the device fills; buffers are returned to the
// device in batches. All memory is allocated at construction. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_VERBS_RECEIVER_H_
#define MILLRACE_TRANSPORT_VERBS_RECEIVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/device.h"
#include "transport/verbs/queue_pair.h"

namespace millrace::inline transport {

class VerbsReceiver {
 public:
  // `device` and `queue` outlive the receiver. Throws Error with one line.
  VerbsReceiver(const VerbsDevice* device, VerbsQueuePair* queue, size_t buffers,
                size_t datagram_bytes);

  // Calls take(datagram, source queue pair, position) for one batch of received datagrams.
  // Returns false if there are none. A datagram is aligned to 8 bytes. If `take` returns true,
  // the buffer stays in use until GiveBack.
  template <typename Take>
  bool Read(Take take);
  // Whether the next Read would find a datagram.
  bool HasDatagram();
  // Frees all kept buffers before `position`.
  void GiveBack(uint64_t position);
  // Memory of all buffers.
  std::span<const std::byte> memory() const { return {memory_.get<std::byte>(), memory_.bytes()}; }
  // Position of the next datagram that is kept.
  uint64_t head() const { return kept_; }
  // Call after VerbsQueuePair::Renew: posts all buffers that are not in use to the new queue
  // pair.
  void Restart();

 private:
  static constexpr size_t kBatch = 32;
  // Space for the global route header, which the device writes if there is one.
  static constexpr size_t kRouteBytes = 40;

  std::byte* BufferAt(uint32_t index) const { return memory_.get<std::byte>() + index * stride_; }
  void Free(uint32_t index);
  // Posts the free buffers to the device.
  void Post();

  VerbsQueuePair& queue_;
  const size_t buffers_, stride_, refill_;
  Buffer memory_;
  MemoryRegion region_;
  std::vector<uint32_t> free_;    // neither in use nor posted to the device
  std::vector<uint32_t> in_use_;  // ring, by position
  uint64_t kept_ = 0, given_back_ = 0;
  size_t found_ = 0, next_ = 0;
  std::array<ibv_wc, kBatch> completions_;
  std::array<ibv_recv_wr, kBatch> requests_;
  std::array<ibv_sge, kBatch> pieces_;
};

template <typename Take>
bool VerbsReceiver::Read(Take take) {
  if (!HasDatagram()) return false;
  for (; next_ < found_; ++next_) {
    const ibv_wc& completion = completions_[next_];
    const auto index = static_cast<uint32_t>(completion.wr_id);
    if (completion.status != IBV_WC_SUCCESS) {
      queue_.SetBroken();
      continue;  // Restart reclaims the buffer
    }
    const size_t bytes = completion.byte_len - kRouteBytes;
    if (take(std::span(BufferAt(index) + kRouteBytes, bytes), completion.src_qp, kept_)) {
      in_use_[kept_++ % buffers_] = index;
    } else {
      Free(index);
    }
  }
  return true;
}

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_VERBS_RECEIVER_H_
