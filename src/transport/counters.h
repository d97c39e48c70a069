// What an endpoint counts. Written by the thread that calls the endpoint, read
// from any thread; each number is exact, two of them need not be of one instant.
#ifndef MILLRACE_TRANSPORT_COUNTERS_H_
#define MILLRACE_TRANSPORT_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace millrace {

// Why a frame went no further at this endpoint.
enum class DropReason : uint8_t {
  kTooLong,        // refused by Send: longer than max_frame_bytes
  kNoSuchNode,     // refused by Send: not to a peer
  kUnreachable,    // accepted, but the destination is not there
  kFailed,         // accepted, but the device or the kernel failed to send it
  kOverrun,        // arrived, but there was no buffer for it
  kMalformed,      // arrived, but not as this transport frames what it sends
  kBadChecksum,    // arrived, but the kernel found its checksum wrong
  kUnknownSender,  // arrived from somewhere that is no peer
};
inline constexpr size_t kDropReasons = 8;

// "too_long", "no_such_node", ...: as counters are named in reports.
inline const char* DropReasonName(DropReason reason) {
  constexpr const char* kNames[kDropReasons] = {"too_long",     "no_such_node",  "unreachable",
                                                "failed",       "overrun",       "malformed",
                                                "bad_checksum", "unknown_sender"};
  return kNames[static_cast<size_t>(reason)];
}

class TransportCounters {
 public:
  // Frames accepted by Send, and their headers and payloads; a multicast is one.
  uint64_t frames_sent() const { return Read(frames_sent_); }
  uint64_t bytes_sent() const { return Read(bytes_sent_); }
  // Frames put on the wire: a multicast that is fanned out is one for each peer.
  uint64_t transmissions() const { return Read(transmissions_); }
  // Frames handed out by Receive.
  uint64_t frames_received() const { return Read(frames_received_); }
  uint64_t bytes_received() const { return Read(bytes_received_); }
  // Calls of Send that ended with kBusy.
  uint64_t busy() const { return Read(busy_); }
  uint64_t dropped(DropReason reason) const { return Read(drops_[static_cast<size_t>(reason)]); }
  // For all reasons together.
  uint64_t dropped() const {
    uint64_t sum = 0;
    for (const Count& each : drops_) sum += Read(each);
    return sum;
  }

  // For the transport's own thread.
  void Sent(uint64_t frames, uint64_t bytes, uint64_t transmissions) {
    Add(&frames_sent_, frames);
    Add(&bytes_sent_, bytes);
    Add(&transmissions_, transmissions);
  }
  void Received(uint64_t frames, uint64_t bytes) {
    Add(&frames_received_, frames);
    Add(&bytes_received_, bytes);
  }
  void Busy() { Add(&busy_, 1); }
  void Drop(DropReason reason, uint64_t frames = 1) {
    Add(&drops_[static_cast<size_t>(reason)], frames);
  }

 private:
  using Count = std::atomic<uint64_t>;
  static uint64_t Read(const Count& count) { return count.load(std::memory_order_relaxed); }
  // One writer, so no locked instruction is needed.
  static void Add(Count* count, uint64_t n) {
    count->store(count->load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  Count frames_sent_{0}, bytes_sent_{0}, transmissions_{0};
  Count frames_received_{0}, bytes_received_{0}, busy_{0};
  std::array<Count, kDropReasons> drops_{};
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_COUNTERS_H_
