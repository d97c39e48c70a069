// Counters of one endpoint. Its caller's thread writes them, any thread may read them.
#ifndef MILLRACE_TRANSPORT_COUNTERS_H_
#define MILLRACE_TRANSPORT_COUNTERS_H_

#include <cstdint>

#include "millrace/counter.h"
#include "millrace/drop_reason.h"

namespace millrace {

class TransportCounters {
 public:
  // Frames accepted by Send, and the bytes of their headers and payloads. A multicast counts
  // once.
  uint64_t frames_sent() const { return frames_sent_.Read(); }
  uint64_t bytes_sent() const { return bytes_sent_.Read(); }
  // Frames put on the wire. A fanned-out multicast counts once per peer.
  uint64_t transmissions() const { return transmissions_.Read(); }
  // Frames returned by Receive.
  uint64_t frames_received() const { return frames_received_.Read(); }
  uint64_t bytes_received() const { return bytes_received_.Read(); }
  // Calls of Send that returned kBusy.
  uint64_t busy() const { return busy_.Read(); }
  // Frames refused by Send, accepted but not sent, or received but not delivered.
  const DropCounters& drops() const { return drops_; }
  uint64_t dropped(DropReason reason) const { return drops_[reason]; }

  // Only the thread that calls the endpoint may call these.
  void Sent(uint64_t frames, uint64_t bytes, uint64_t transmissions) {
    frames_sent_.Add(frames);
    bytes_sent_.Add(bytes);
    transmissions_.Add(transmissions);
  }
  void Received(uint64_t frames, uint64_t bytes) {
    frames_received_.Add(frames);
    bytes_received_.Add(bytes);
  }
  void Busy() { busy_.Add(); }
  // `reason`: kTooLong, kNoSuchNode, kUnreachable, kFailed, kOverrun, kMalformed, kBadChecksum or
  // kUnknownSender. The metrics of transports show no others.
  void Drop(DropReason reason, uint64_t frames = 1) { drops_.Add(reason, frames); }

 private:
  Counter frames_sent_, bytes_sent_, transmissions_, frames_received_, bytes_received_, busy_;
  DropCounters drops_;
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_COUNTERS_H_
