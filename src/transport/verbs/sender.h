// Sends datagrams through a device. Prefix and header are copied into a ring of slots. The
// payload is sent in place if it lies in registered memory, and is copied into the slot
// otherwise. Short datagrams travel inline in the send request. Datagrams are sent in order; few
// of them request a completion. All memory is allocated at construction. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_VERBS_SENDER_H_
#define MILLRACE_TRANSPORT_VERBS_SENDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/device.h"
#include "transport/verbs/queue_pair.h"

namespace millrace::inline transport {

struct VerbsDestination {
  ibv_ah* address = nullptr;
  uint32_t queue_pair = 0, key = 0;
};

class VerbsSender {
 public:
  // `device` and `queue` outlive the sender. Throws Error with one line.
  VerbsSender(const VerbsDevice* device, VerbsQueuePair* queue, size_t slots,
              size_t datagram_bytes);

  // Registers `memory`, which outlives the sender; payloads in it are sent in place. Returns
  // false if it is GPU memory that the device cannot read: then no payload may lie in it. Throws
  // Error.
  bool RegisterMemory(std::span<const std::byte> memory);

  // Whether there are free slots for `datagrams`. Polls for completions if necessary.
  bool HasRoom(size_t datagrams);
  // Requires room. `header` and `prefix` are copied; payload in registered memory is read until
  // the datagram has been sent. `ends_frame`: this is the last (or only) datagram of a frame.
  void Add(const VerbsDestination& to, std::span<const std::byte> prefix,
           std::span<const std::byte> header, std::span<const std::byte> payload, bool ends_frame);
  // Counts a frame that is not sent.
  void Skip();
  // Posts the added datagrams to the device. If the device refuses some, they are lost and the
  // queue pair is broken.
  void Post();

  // Polls for completions. Returns true if more datagrams have been sent.
  bool Reap();
  // Frames added; and how many of the latest may still be read from the caller's memory, as of
  // the last Reap.
  uint64_t frames() const { return frames_; }
  uint64_t Unfinished() const;
  // Frames since the last call that a device failure lost, or may have lost.
  uint64_t TakeFailed();
  // Call after VerbsQueuePair::Renew: no datagram is in flight any more.
  void Restart();
  // Datagrams added and sent so far. An address handle may be destroyed once all datagrams added
  // before its retirement have been sent.
  uint64_t added() const { return added_; }
  uint64_t sent() const { return sent_; }

 private:
  struct Registered {
    const std::byte* begin;
    const std::byte* end;
    MemoryRegion region;
    bool on_host;  // false: the processor cannot read it
  };
  static constexpr size_t kChain = 64;  // requests per ibv_post_send call
  static constexpr uint32_t kMaxUnsignaled = 16;

  // The registered region that contains `piece`; null if none does.
  const Registered* Find(std::span<const std::byte> piece) const;
  std::byte* SlotAt(uint64_t number) const {
    return memory_.get<std::byte>() + number % slots_ * stride_;
  }

  VerbsQueuePair& queue_;
  const VerbsDevice& device_;
  const size_t slots_, stride_;
  Buffer memory_;
  MemoryRegion region_;
  std::vector<Registered> registered_;
  bool all_on_host_ = true;
  std::vector<uint64_t> frames_after_;  // by slot: frames that have ended with it
  uint64_t added_ = 0, sent_ = 0;       // datagrams
  uint64_t frames_ = 0, frames_sent_ = 0;
  uint64_t last_direct_ = 0;  // number of the last datagram whose payload is sent in place
  uint64_t failed_ = 0;
  uint32_t unsignaled_ = 0;
  bool direct_unsignaled_ = false;  // ... of which one reads the caller's memory
  size_t chained_ = 0;
  std::array<ibv_send_wr, kChain> requests_;
  std::array<ibv_sge, 2 * kChain> pieces_;
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_VERBS_SENDER_H_
