// Datagrams out of a device: a deep ring of buffers that it fills, handed back to it many
// at a time. All memory is set aside when it is made. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_VERBS_RECEIVER_H_
#define MILLRACE_TRANSPORT_VERBS_RECEIVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "transport/verbs/queue_pair.h"

namespace millrace {

class VerbsReceiver {
 public:
  // Both outlive it. Throws Error with one line.
  VerbsReceiver(const VerbsDevice* device, VerbsQueuePair* queue, size_t buffers,
                size_t datagram_bytes);

  // Calls take(datagram, queue pair that it came from, position) for what has arrived, as
  // far as one look finds; false if nothing has. A datagram begins on a multiple of 8
  // bytes. True from `take`: its buffer stays in use until the position is given back.
  template <typename Take>
  bool Read(Take take);
  // Whether the next Read would find something.
  bool Look();
  // All buffers that were kept before `position` are free again.
  void GiveBack(uint64_t position);
  // All buffers.
  std::span<const std::byte> memory() const { return {memory_.get<std::byte>(), memory_.bytes()}; }
  // The position that is given to the next datagram that is kept.
  uint64_t head() const { return kept_; }
  // The queue pair is another now: it gets all buffers that are not in use.
  void Restart();

 private:
  static constexpr size_t kBatch = 32;
  // The device writes the global route header there, if there is one.
  static constexpr size_t kRouteBytes = 40;

  std::byte* BufferAt(uint32_t index) const { return memory_.get<std::byte>() + index * stride_; }
  void Free(uint32_t index);
  // Hands the free buffers to the device.
  void Post();

  VerbsQueuePair& queue_;
  const size_t buffers_, stride_, refill_;
  Buffer memory_;
  MemoryRegion region_;
  std::vector<uint32_t> free_;    // not in use, and not with the device
  std::vector<uint32_t> in_use_;  // by position, a ring
  uint64_t kept_ = 0, given_back_ = 0;
  size_t found_ = 0, next_ = 0;
  std::array<ibv_wc, kBatch> completions_;
  std::array<ibv_recv_wr, kBatch> requests_;
  std::array<ibv_sge, kBatch> pieces_;
};

template <typename Take>
bool VerbsReceiver::Read(Take take) {
  if (!Look()) return false;
  for (; next_ < found_; ++next_) {
    const ibv_wc& completion = completions_[next_];
    const auto index = static_cast<uint32_t>(completion.wr_id);
    if (completion.status != IBV_WC_SUCCESS) {
      queue_.SetBroken();
      continue;  // Restart finds the buffer
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

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_VERBS_RECEIVER_H_
