// What a windowed endpoint sends and receives by: datagrams to and from a fixed list
// of peers, framed and addressed as the carrier (UDP, raw Ethernet, RDMA) does it. Peers
// are known by their index in the order of their ids. A link loses datagrams as a network
// does; numbers and windows are its endpoint's.
//
// Not thread-safe. But for Expose, nothing here throws, allocates or reads a clock.
#ifndef MILLRACE_TRANSPORT_DATAGRAM_LINK_H_
#define MILLRACE_TRANSPORT_DATAGRAM_LINK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/transport.h"

namespace millrace {

enum class DatagramKind : uint8_t {
  kFrame = 0,   // `sequence` is its number
  kCredit = 1,  // `sequence` is the last number of the stream that is done with
  kProbe = 2,   // `sequence` is the last number that was used
};

// Frames carry only this part of their session.
constexpr uint16_t TagOf(uint64_t session) { return static_cast<uint16_t>(session); }

// What a credit or a probe says. Sessions are nonces: 64 random bits, drawn when an endpoint is
// made, of which a host that does not see the datagrams knows nothing. So an echo shows that its
// sender has received what this node has sent.
struct ControlMessage {
  uint32_t sequence = 0;  // as DatagramKind says
  uint64_t session = 0;   // the sender's; of a probe: that of the stream it is about
  // Of a credit: the session whose frames are counted. Of a probe: the receiver's as far as the
  // sender knows it, else 0.
  uint64_t echo = 0;
  // Of a credit: how many frames may be unconfirmed; 0: this is a challenge, which counts nothing
  // and asks for a probe that echoes `session`.
  uint32_t window = 0;
};

// A datagram that has arrived, decoded.
struct Datagram {
  size_t peer = 0;
  DatagramKind kind = DatagramKind::kFrame;
  // Of a frame: its number and the tag of its session.
  uint32_t sequence = 0;
  uint16_t tag = 0;
  // Of the sender's stream to all its peers: a frame that was multicast, or a probe that
  // asks about such.
  bool to_all = false;
  // Of a frame: its bytes, from a multiple of 8 on, and the buffer that they lie in.
  std::span<const std::byte> bytes = {};
  uint64_t position = 0;
  // Of a credit or a probe.
  ControlMessage control = {};
};

class DatagramLink {
 public:
  // Where what is read goes.
  class Sink {
   public:
    // True: the buffer at datagram.position stays in use until it is given back.
    virtual bool Take(const Datagram& datagram) = 0;
    virtual void Drop(DropReason reason, uint64_t datagrams) = 0;
    // From now on frames can be sent to the peer (which may have another address than
    // before). Only from links that do not reach all their peers from the first.
    virtual void Reached(size_t peer) = 0;

   protected:
    ~Sink() = default;
  };

  // Frames that one Flush takes at most.
  static constexpr size_t kMostBatch = 128;
  // In Add: all peers with one datagram. Only where TransportInfo::multicast is true.
  static constexpr size_t kAllPeers = SIZE_MAX;

  struct Flushed {
    size_t frames = 0;       // so many from the front are done with ...
    size_t failed = 0;       // ... of which the kernel would not send these
    size_t bytes = 0;        // headers and payloads of `frames`
    size_t copies = 0;       // transmissions beyond one for each frame
    bool busy = false;       // the others met a full queue:
    bool of_device = false;  // the device's, which says nothing when there is room
  };

  virtual ~DatagramLink() = default;

  // False: nothing can be sent to the peer until Sink::Reached says so.
  virtual bool Reaches(size_t) const { return true; }
  // Frames whose payload lies in `memory`, which outlives the link, may be sent from
  // there; false: the link copies them all the same. Throws Error if it cannot be done.
  virtual bool RegisterMemory(std::span<const std::byte> memory) {
    (void)memory;
    return false;
  }
  // As Transport::ReceiveMemory.
  virtual std::vector<std::span<const std::byte>> ReceiveMemory() const { return {}; }
  // How many of the frames that Flush was done with, counted from the last one back, are
  // still being read from the caller's memory. Always 0 where TransportInfo::copies is true.
  virtual uint64_t Unfinished() { return 0; }

  // Puts a frame behind those of the next Flush, of which there are fewer than
  // kMostBatch. Its memory is read by Flush.
  virtual void Add(size_t peer, uint16_t tag, uint32_t sequence, const OutFrame& frame) = 0;
  // Sends what was added, in order, and forgets it; frames that are not done with were
  // not sent.
  virtual Flushed Flush() = 0;
  // False if there is no room for it now.
  virtual bool SendCredit(size_t peer, const ControlMessage& credit) = 0;
  // `to_all`: about the stream to all peers.
  virtual bool SendProbe(size_t peer, const ControlMessage& probe, bool to_all) = 0;

  // Reads what one look finds; false if nothing was there, or nowhere to put it.
  virtual bool Read(Sink* sink) = 0;
  // All buffers before `position` are free again.
  virtual void GiveBack(uint64_t position) = 0;
  // The position of the buffer that is filled next; all before it have been read.
  virtual uint64_t head() const = 0;

  struct Polled {
    bool room = false;   // was asked for, and there may be some
    bool woken = false;  // `wake` is readable
  };
  // Sleeps until there may be something to read or (if `wants_room`) room to send, or
  // until `wake` is readable, or for `ns` real nanoseconds; may return early.
  virtual Polled Poll(int wake, int64_t ns, bool wants_room) = 0;
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_DATAGRAM_LINK_H_
