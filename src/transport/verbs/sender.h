// Datagrams on their way into a device: prefix and header from a ring of slots, payload
// from where it lies if the device has been shown that memory, else from a copy in the
// slot; what is short goes along with the request itself. Sends in order and learns what
// has been sent from few completions. All memory is set aside when it is made. Not
// thread-safe.
#ifndef MILLRACE_TRANSPORT_VERBS_SENDER_H_
#define MILLRACE_TRANSPORT_VERBS_SENDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "transport/verbs/queue_pair.h"

namespace millrace {

struct VerbsDestination {
  ibv_ah* address = nullptr;
  uint32_t queue_pair = 0, key = 0;
};

class VerbsSender {
 public:
  // Both outlive it. Throws Error with one line.
  VerbsSender(const VerbsDevice* device, VerbsQueuePair* queue, size_t slots,
              size_t datagram_bytes);

  // Payloads in `memory`, which outlives it, are sent from there. Throws Error. False if that
  // is a GPU's and the device cannot read it: then no payload may lie in it.
  bool RegisterMemory(std::span<const std::byte> memory);

  // Whether there is room for so many datagrams, after a look at the device if need be.
  bool HasRoom(size_t datagrams);
  // There must be room. The pieces' memory is read until the datagram is sent, but for
  // `prefix`. `ends_frame`: the last, or only, datagram of a frame.
  void Add(const VerbsDestination& to, std::span<const std::byte> prefix,
           std::span<const std::byte> header, std::span<const std::byte> payload, bool ends_frame);
  // A frame that goes nowhere, but is counted among the others.
  void Skip();
  // Hands what was added to the device. What it does not take is lost, and the queue pair
  // broken.
  void Post();

  // Looks which datagrams have been sent. True if any have.
  bool Reap();
  // Frames added, and how many of the last of them are still read from the caller's
  // memory as far as Reap has seen.
  uint64_t frames() const { return frames_; }
  uint64_t Unfinished() const;
  // Frames that the device has not, or may not have, sent because it failed, since the
  // last call.
  uint64_t TakeFailed();
  // The queue pair is another now: nothing is on its way any more.
  void Restart();
  // So many datagrams have been added, and sent. (An address may go once all that were
  // added before are sent.)
  uint64_t added() const { return added_; }
  uint64_t sent() const { return sent_; }

 private:
  struct Exposed {
    const std::byte* begin;
    const std::byte* end;
    MemoryRegion region;
    bool on_host;  // else the processor cannot read it
  };
  static constexpr size_t kChain = 64;  // requests in one call
  static constexpr uint32_t kMostUnsignaled = 16;

  // The region that `piece` lies in; null if there is none.
  const Exposed* Find(std::span<const std::byte> piece) const;
  std::byte* SlotAt(uint64_t number) const {
    return memory_.get<std::byte>() + number % slots_ * stride_;
  }

  VerbsQueuePair& queue_;
  const VerbsDevice& device_;
  const size_t slots_, stride_;
  Buffer memory_;
  MemoryRegion region_;
  std::vector<Exposed> exposed_;
  bool all_on_host_ = true;
  std::vector<uint64_t> frames_after_;  // by slot: frames that have ended with it
  uint64_t added_ = 0, sent_ = 0;       // datagrams
  uint64_t frames_ = 0, frames_sent_ = 0;
  uint64_t last_direct_ = 0;  // the number of the last datagram sent from elsewhere
  uint64_t failed_ = 0;
  uint32_t unsignaled_ = 0;
  bool direct_unsignaled_ = false;  // ... of which one reads the caller's memory
  size_t chained_ = 0;
  std::array<ibv_send_wr, kChain> requests_;
  std::array<ibv_sge, 2 * kChain> pieces_;
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_VERBS_SENDER_H_
