// The layer below CreditedEndpoint: sends and receives datagrams to and from a fixed list of
// peers, framed and addressed as the carrier (UDP, raw Ethernet, RDMA) requires. A peer is
// identified by its index in ascending order of node ids. A link may lose datagrams; the endpoint
// does the numbering and the flow control.
//
// Not thread-safe. Except RegisterMemory and SetPeerAddress, nothing here throws, allocates or
// reads a clock.
#ifndef MILLRACE_TRANSPORT_DATAGRAM_LINK_H_
#define MILLRACE_TRANSPORT_DATAGRAM_LINK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/transport.h"

namespace millrace::inline transport {

enum class DatagramKind : uint8_t {
  kFrame = 0,   // `sequence` is the frame's number
  kCredit = 1,  // acknowledges all frames of the stream up to `sequence`
  kProbe = 2,   // `sequence` is the last number that the sender has used
};

// Frames carry only this part of their session id.
constexpr uint16_t TagOf(uint64_t session) { return static_cast<uint16_t>(session); }

// Contents of a credit or a probe. A session id is a nonce of 64 random bits, drawn when an
// endpoint is created. A host that does not see the datagrams does not know it, so an echo shows
// that its sender receives what this node sends.
struct ControlMessage {
  uint32_t sequence = 0;  // see DatagramKind
  uint64_t session = 0;   // sender's session id; in a probe, that of the stream
  // Credit: session id of the stream that is acknowledged. Probe: session id of the receiver, 0
  // if the sender does not know it.
  uint64_t echo = 0;
  // Credit: how many frames may be unacknowledged. 0 marks a challenge, which acknowledges
  // nothing and requests a probe that echoes `session`.
  uint32_t window = 0;
};

// A received datagram, decoded.
struct Datagram {
  size_t peer = 0;
  DatagramKind kind = DatagramKind::kFrame;
  // Frame: its number and the tag of its session id.
  uint32_t sequence = 0;
  uint16_t tag = 0;
  // Belongs to the sender's stream to all peers: a multicast frame, or a probe of that stream.
  bool to_all = false;
  // Frame: its bytes, aligned to 8 bytes, and the position of the buffer that holds them.
  std::span<const std::byte> bytes = {};
  uint64_t position = 0;
  // Credit or probe.
  ControlMessage control = {};
};

class DatagramLink {
 public:
  // Consumer of received datagrams.
  class Sink {
   public:
    // Returns true to keep the buffer at datagram.position until GiveBack.
    virtual bool Take(const Datagram& datagram) = 0;
    virtual void Drop(DropReason reason, uint64_t datagrams) = 0;
    // Frames can be sent to the peer from now on; its address may have changed. Called only by
    // links that do not reach all peers from the start.
    virtual void Reached(size_t peer) = 0;

   protected:
    ~Sink() = default;
  };

  // Maximum frames per Flush.
  static constexpr size_t kMaxBatch = 128;
  // Destination for Add: all peers with one datagram. Only if TransportInfo::multicast is true.
  static constexpr size_t kAllPeers = SIZE_MAX;

  struct Flushed {
    size_t frames = 0;       // frames processed, from the front
    size_t failed = 0;       // of these, frames that could not be sent
    size_t bytes = 0;        // headers and payloads of `frames`
    size_t copies = 0;       // transmissions beyond one per frame
    bool busy = false;       // the remaining frames met a full queue
    bool of_device = false;  // ... of the device, which reports no event when it has room
  };

  virtual ~DatagramLink() = default;

  // False: nothing can be sent to the peer until the link calls Sink::Reached.
  virtual bool Reaches(size_t) const { return true; }
  // See Transport::SetPeerAddress. Not between Add and Flush. May allocate.
  virtual std::string SetPeerAddress(size_t peer, const std::string& address) {
    (void)peer, (void)address;
    return "this transport cannot change addresses";
  }
  // Registers `memory`, which outlives the link, so that payloads in it are sent without a copy.
  // Returns false if the link copies them anyway. Throws Error if registration fails.
  virtual bool RegisterMemory(std::span<const std::byte> memory) {
    (void)memory;
    return false;
  }
  // See Transport::ReceiveMemory.
  virtual std::vector<std::span<const std::byte>> ReceiveMemory() const { return {}; }
  // How many of the latest frames that Flush has processed are still being read from the
  // caller's memory. Always 0 if TransportInfo::copies is true.
  virtual uint64_t Unfinished() { return 0; }

  // Appends a frame to the next Flush; at most kMaxBatch frames per Flush. The frame's memory
  // must stay valid through Flush and as long as Unfinished() includes the frame.
  virtual void Add(size_t peer, uint16_t tag, uint32_t sequence, const OutFrame& frame) = 0;
  // Sends the added frames in order and empties the batch. Frames that it did not process were
  // not sent.
  virtual Flushed Flush() = 0;
  // Returns false if there is no room now.
  virtual bool SendCredit(size_t peer, const ControlMessage& credit) = 0;
  // As SendCredit. `to_all`: the probe concerns the stream to all peers.
  virtual bool SendProbe(size_t peer, const ControlMessage& probe, bool to_all) = 0;

  // Reads one batch of datagrams. False if nothing was there, or no buffer was free.
  virtual bool Read(Sink* sink) = 0;
  // Frees all buffers before `position`.
  virtual void GiveBack(uint64_t position) = 0;
  // Position of the buffer that is filled next; all buffers before it have been read.
  virtual uint64_t head() const = 0;

  struct Polled {
    bool room = false;   // room was requested and may be available
    bool woken = false;  // `wake` is readable
  };
  // Sleeps until there may be something to read, room to send (if `wants_room`), or `wake` is
  // readable, for at most `ns` real nanoseconds. May return early.
  virtual Polled Poll(int wake, int64_t ns, bool wants_room) = 0;
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_DATAGRAM_LINK_H_
