// Counters of one endpoint. The thread that calls the endpoint writes them; any thread may read
// them. Each value is exact, but two values read together need not belong to the same instant.
#ifndef MILLRACE_TRANSPORT_COUNTERS_H_
#define MILLRACE_TRANSPORT_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace millrace {

// Why an endpoint dropped or refused a frame.
enum class DropReason : uint8_t {
  kTooLong,        // refused by Send: longer than max_frame_bytes
  kNoSuchNode,     // refused by Send: the destination is not a peer
  kUnreachable,    // accepted, but the destination is unresponsive or not connected
  kFailed,         // accepted, but the device or the kernel failed to send it
  kOverrun,        // received, but no buffer was free
  kMalformed,      // received, but not a valid datagram of this transport
  kBadChecksum,    // received, but the kernel found a wrong checksum
  kUnknownSender,  // received from an address that belongs to no peer
};
inline constexpr size_t kDropReasons = 8;

// Counter names in reports: "too_long", "no_such_node", ...
inline const char* DropReasonName(DropReason reason) {
  constexpr const char* kNames[kDropReasons] = {"too_long",     "no_such_node",  "unreachable",
                                                "failed",       "overrun",       "malformed",
                                                "bad_checksum", "unknown_sender"};
  return kNames[static_cast<size_t>(reason)];
}

class TransportCounters {
 public:
  // Frames accepted by Send, and the bytes of their headers and payloads. A multicast counts
  // once.
  uint64_t frames_sent() const { return Read(frames_sent_); }
  uint64_t bytes_sent() const { return Read(bytes_sent_); }
  // Frames put on the wire. A fanned-out multicast counts once per peer.
  uint64_t transmissions() const { return Read(transmissions_); }
  // Frames returned by Receive.
  uint64_t frames_received() const { return Read(frames_received_); }
  uint64_t bytes_received() const { return Read(bytes_received_); }
  // Calls of Send that returned kBusy.
  uint64_t busy() const { return Read(busy_); }
  uint64_t dropped(DropReason reason) const { return Read(drops_[static_cast<size_t>(reason)]); }
  // Sum over all reasons.
  uint64_t dropped() const {
    uint64_t sum = 0;
    for (const Count& each : drops_) sum += Read(each);
    return sum;
  }

  // Only the thread that calls the endpoint may call these.
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
  // There is a single writer, so no locked instruction is needed.
  static void Add(Count* count, uint64_t n) {
    count->store(count->load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  Count frames_sent_{0}, bytes_sent_{0}, transmissions_{0};
  Count frames_received_{0}, bytes_received_{0}, busy_{0};
  std::array<Count, kDropReasons> drops_{};
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_COUNTERS_H_
