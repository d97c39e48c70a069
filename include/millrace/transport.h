// The interface that every transport implements: frames between the nodes of a run. A class derived
// from Transport is registered with its descriptor (transport_registry.h); docs/guides/transport.md
// is a guide with a complete example.
//
// An endpoint belongs to one node and addresses its peers by node id. All calls take batches of
// frames. A transport may lose, duplicate and reorder accepted frames; the exchange tolerates
// this. It never delivers a frame to a node that the frame is not addressed to. It counts the
// frames that it drops deliberately. It need not recognize altered frames or forged senders: the
// exchange has a checksum in every frame, and segments with a key authenticate frames.
//
// Thread-safety: one thread at a time calls an endpoint. Wake(), info() and counters() may be
// called from any thread during the endpoint's lifetime.
//
// Set-up, which is the factory, RegisterMemory and ReceiveMemory, throws Error with one line. Send,
// Reclaim, Receive, Release and Wake never throw, allocate or read a clock; Wait reads the injected
// clock and does not throw or allocate either. If the medium fails for good, an endpoint drops
// frames and counts them (DropReason::kFailed).
//
// Specification: docs/transport.md. Conformance tests: test/conformance.
#ifndef MILLRACE_TRANSPORT_H_
#define MILLRACE_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/clock.h"
#include "millrace/export.h"
#include "millrace/node_id.h"
#include "millrace/transport_counters.h"

namespace millrace {

// A frame to send: `header`, then `payload`; either may be empty. The caller owns both and must
// keep them at the same address until Reclaim() reports the frame complete. Their bytes must not
// change either, unless the payload is live memory whose value may change while it is read.
struct MILLRACE_API OutFrame {
  NodeId to = kAllNodes;
  std::span<const std::byte> header;
  std::span<const std::byte> payload;

  size_t bytes() const { return header.size() + payload.size(); }
  // Writes header and payload to `out`, which must have room for bytes().
  void CopyTo(std::byte* out) const;
};

// A received frame: header and payload in one piece, in the transport's memory, valid until
// Release(). Aligned to 8 bytes, so a payload after a header of 4 n bytes is aligned for floats.
struct InFrame {
  NodeId from = 0;  // as the transport identifies the sender; not authenticated
  std::span<const std::byte> bytes;
};

// Why Send stopped. All values but kAccepted describe the first frame not accepted.
enum class SendStatus : uint8_t {
  kAccepted,    // all frames were accepted
  kBusy,        // no room now: keep the frame and retry later
  kTooLong,     // longer than max_frame_bytes: never accepted
  kNoSuchNode,  // the destination is not a peer: never accepted
};

struct SendResult {
  size_t accepted = 0;  // frames [0, accepted) of the batch
  SendStatus status = SendStatus::kAccepted;
};

enum class WaitFor : uint8_t { kReceive, kReceiveOrSend };

// Conditions that ended the wait; none set means timeout.
struct WaitResult {
  bool receivable = false;  // call Receive; it may drop everything that it finds
  // Only with kReceiveOrSend. If the last Send was busy: retry it. Otherwise: Reclaim would
  // return more than last time, or every accepted frame is complete.
  bool sendable = false;
  bool woken = false;  // Wake() was called since the last Wait that reported it
};

// Properties of an endpoint; constant during its lifetime.
struct TransportInfo {
  std::string name;  // registered name of the transport
  NodeId node = 0;   // this endpoint's node
  std::vector<NodeId> peers;
  size_t max_frame_bytes = 0;  // header plus payload
  // Bytes that the network adds to a frame, including the Ethernet header.
  size_t overhead_bytes = 0;
  // A frame to kAllNodes costs one transmission instead of one per peer.
  bool multicast = false;
  // Send copies: an accepted frame is complete when Send returns.
  bool copies = false;
  // Every frame accepted for an open endpoint arrives there exactly once.
  bool lossless = false;
};

class MILLRACE_API Transport {
 public:
  explicit Transport(TransportInfo info) : info_(std::move(info)) {}
  // Frames in flight may be lost. All frames given to Send belong to the caller again.
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Accepts frames from the front of the batch until one cannot be accepted; the caller keeps
  // that one. The order of frames has no meaning: the caller may continue at once with the frames
  // behind it, and a destination without room does not block others. Accepted frames may need
  // later calls of Reclaim, Receive or Wait before they are transmitted.
  virtual SendResult Send(std::span<const OutFrame> frames) = 0;

  // Returns the number of complete frames. Accepted frames are numbered 1, 2, ... in order of
  // acceptance; frames up to the returned number belong to the caller again. Never decreases.
  // Reaches the number of accepted frames if called often enough, with Wait in between.
  virtual uint64_t Reclaim() = 0;

  // Fills the front of `frames` with received frames and returns how many; returns 0 at once if
  // there are none. May be called again before Release() as long as the transport has buffers
  // left.
  virtual size_t Receive(std::span<InFrame> frames) = 0;

  // Frees the buffers of all frames received so far.
  virtual void Release() = 0;

  // Blocks until a frame can be received, a frame can be sent (with kReceiveOrSend), Wake() is
  // called, or the clock reaches `deadline_ns`. Returns at once if one of these holds already.
  // One call of Wake ends one Wait.
  virtual WaitResult Wait(int64_t deadline_ns, WaitFor what) = 0;

  // Ends the Wait in progress, or else the next one. Any thread.
  virtual void Wake() = 0;

  // Set-up: registers `memory`, which holds payloads and outlives the endpoint. Returns true if
  // the transport sends payloads from there without a copy; otherwise the call has no effect.
  // Throws Error if the transport supports this but registration fails (such as for the limit of
  // locked memory).
  virtual bool RegisterMemory(std::span<const std::byte> memory) {
    (void)memory;
    return false;
  }

  // Set-up: the host memory that holds received frames, so that it can be registered with a
  // device. Its address is constant during the endpoint's lifetime; only the transport writes to
  // it. Empty: unknown; receivers then accept frames at any address.
  virtual std::vector<std::span<const std::byte>> ReceiveMemory() const { return {}; }

  // From now on `peer` has this address: text as in the option `peers`, with an IP address for a
  // host. A second peer that had it has none any more. May allocate, but neither blocks nor throws.
  // Returns "", or in words why nothing was changed: the transport cannot
  // (TransportDescriptor::moves_peers), there is no such peer, or the address cannot be used here.
  virtual std::string SetPeerAddress(NodeId peer, const std::string& address) {
    (void)peer, (void)address;
    return "this transport cannot change addresses";
  }

  const TransportInfo& info() const { return info_; }
  size_t max_frame_bytes() const { return info_.max_frame_bytes; }
  // Any thread.
  const TransportCounters& counters() const { return counters_; }

 protected:
  // Returns kAccepted, or why `frame` can never be sent (kTooLong, kNoSuchNode); counts the latter.
  // Send calls it for each frame.
  SendStatus Check(const OutFrame& frame);
  bool HasPeer(NodeId node) const { return node < is_peer_.size() && is_peer_[node]; }
  // Constructors call this once info_.peers is set.
  void IndexPeers();

  TransportInfo info_;          // complete when the constructor returns
  TransportCounters counters_;  // Send and Receive keep them up to date

 private:
  std::vector<bool> is_peer_;  // by node id
};

// Largest peer id plus one.
MILLRACE_API size_t PeerLimit(const TransportInfo& info);

// The machine's steady clock: the default clock of transports.
MILLRACE_API const Clock& DefaultClock();

// How long to sleep, in real nanoseconds, before reading `clock` again; 0 once it has reached the
// deadline. At most 5 ms, since an injected clock may run at a different speed than real time.
MILLRACE_API int64_t SleepNs(const Clock& clock, int64_t deadline_ns);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_H_
