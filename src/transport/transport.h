// Frames between the nodes of a run: what every transport implements.
//
// An endpoint belongs to one node and reaches its peers by node id. All calls
// are made per batch of frames. A transport may lose, duplicate and reorder what
// it has accepted (the exchange lives with that); it never delivers a frame to a
// node that it was not addressed to, and it counts what it drops on purpose.
//
// Threads: one thread at a time calls everything; Wake() and counters() may be
// called from any thread at any time while the endpoint lives.
//
// Set-up throws Error with one line. Send, Reclaim, Receive, Release and Wake
// never throw, allocate or read a clock; Wait reads the injected one.
//
// docs/transport.md is the contract in prose; test/conformance checks it.
#ifndef MILLRACE_TRANSPORT_TRANSPORT_H_
#define MILLRACE_TRANSPORT_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/node_id.h"
#include "transport/counters.h"

namespace millrace {

// A frame to send: `payload` follows `header` on the wire. Either may be empty.
// Both stay the caller's memory, which must keep its address (and, unless the
// payload is live memory whose value may change while it is read, its bytes)
// until Reclaim() says that the frame is done with.
struct OutFrame {
  NodeId to = kAllNodes;
  std::span<const std::byte> header;
  std::span<const std::byte> payload;

  size_t bytes() const { return header.size() + payload.size(); }
  // Writes both pieces to `out`, which has room for bytes().
  void CopyTo(std::byte* out) const;
};

// A frame that has arrived: header and payload in one piece, in the transport's
// memory, valid until Release(). Begins on a multiple of 8 bytes, so a payload
// behind a header of 4 n bytes is aligned for floats.
struct InFrame {
  NodeId from = 0;  // as the transport knows it; not authenticated
  std::span<const std::byte> bytes;
};

// Why Send stopped. All but kAccepted are about the first frame not accepted.
enum class SendStatus : uint8_t {
  kAccepted,    // all frames were accepted
  kBusy,        // no room for it now: keep it and try again later
  kTooLong,     // longer than max_frame_bytes: it will never be accepted
  kNoSuchNode,  // not to a peer: neither will this
};

struct SendResult {
  size_t accepted = 0;  // frames [0, accepted) of the batch
  SendStatus status = SendStatus::kAccepted;
};

enum class WaitFor : uint8_t { kReceive, kReceiveOrSend };

// What was so when Wait returned; nothing: its deadline has passed.
struct WaitResult {
  bool receivable = false;  // Receive is worth a call; it may drop all that it finds
  // If that was waited for. After a Send that was busy: it is worth another try.
  // Else: Reclaim would say more than it last did, or has nothing left to say.
  bool sendable = false;
  bool woken = false;  // Wake() was called since the last Wait that said so
};

// What an endpoint is; does not change while it lives.
struct TransportInfo {
  std::string name;  // of the transport, as it is registered
  NodeId node = 0;   // this endpoint's
  std::vector<NodeId> peers;
  size_t max_frame_bytes = 0;  // header and payload together
  // What the network adds to a frame, down to the Ethernet header.
  size_t overhead_bytes = 0;
  // A frame to kAllNodes costs one transmission, not one for each peer.
  bool multicast = false;
  // Send copies: what it accepts is done with when it returns.
  bool copies = false;
  // What is accepted for a live endpoint arrives there, once.
  bool lossless = false;
};

class Transport {
 public:
  explicit Transport(TransportInfo info) : info_(std::move(info)) {}
  // Frames in flight may be lost; every frame given to Send is the caller's again.
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Takes frames from the front of the batch until one cannot be accepted. The
  // caller keeps that one; the order of frames means nothing, so it may call
  // again at once with those behind it, and a destination without room does not
  // hold up the others. What was accepted may need later calls (Reclaim, Receive or
  // Wait) to go out.
  virtual SendResult Send(std::span<const OutFrame> frames) = 0;

  // How many frames are done with: accepted frames are numbered 1, 2, ... in the
  // order in which they were accepted, and those up to the number returned belong
  // to the caller again. Never falls; ends at the number of frames accepted if
  // called (with Wait in between) often enough.
  virtual uint64_t Reclaim() = 0;

  // Fills the front of `frames` with what has arrived and returns how many;
  // 0 at once if there is nothing. May be called again before Release(), as long
  // as the transport has buffers left.
  virtual size_t Receive(std::span<InFrame> frames) = 0;

  // Gives back the buffers of all frames received so far.
  virtual void Release() = 0;

  // Blocks until something can be received (or, if that is waited for, sent), or
  // Wake() is or was called, or the clock reaches `deadline_ns`; at once if one
  // of these is so already. A call of Wake ends one Wait.
  virtual WaitResult Wait(int64_t deadline_ns, WaitFor what) = 0;

  // Ends the Wait in progress, else the next one. Any thread.
  virtual void Wake() = 0;

  // Set-up: payloads will lie in `memory`, which outlives the endpoint. True if the
  // transport sends them from there, without a copy; else the call changes nothing.
  // Throws Error if it would but must not (not enough memory may be locked).
  virtual bool RegisterMemory(std::span<const std::byte> memory) {
    (void)memory;
    return false;
  }

  // Set-up: the memory that received frames will lie in, the host's, so that it can be shown to
  // a device. Stays where it is while the endpoint lives; nobody else may write to it. Empty:
  // that is not known, and frames are taken from wherever they are.
  virtual std::vector<std::span<const std::byte>> ReceiveMemory() const { return {}; }

  const TransportInfo& info() const { return info_; }
  size_t max_frame_bytes() const { return info_.max_frame_bytes; }
  // Any thread.
  const TransportCounters& counters() const { return counters_; }

 protected:
  // kAccepted, or why `frame` can never be sent; counts it.
  SendStatus Check(const OutFrame& frame);
  bool HasPeer(NodeId node) const { return node < is_peer_.size() && is_peer_[node]; }
  // Called by constructors once info_.peers is known.
  void IndexPeers();

  TransportInfo info_;
  TransportCounters counters_;

 private:
  std::vector<bool> is_peer_;  // by node id
};

// One more than the largest id among the peers.
size_t PeerLimit(const TransportInfo& info);

// The machine's steady clock: what transports wait by unless they are given another.
const Clock& DefaultClock();

// How long to sleep, in real nanoseconds, before looking at `clock` again; 0 once
// it has reached the deadline. At most 5 ms, since an injected clock need not run
// at the speed of the machine's.
int64_t SleepNs(const Clock& clock, int64_t deadline_ns);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_TRANSPORT_H_
