// Handshake between the nodes of a run: establishes a session with each peer and checks that both
// nodes have compatible settings. Frames of a peer reach the exchange only after IsEstablished.
//
// Pure logic: frames, random bytes and the time are inputs, frames are the output. There are no
// sockets, clocks or threads. docs/handshake.md specifies the rules and the format.
//
//   Handshake handshake(config, &key, SystemRandom);
//   for (;;) {
//     for each frame received:
//       if (IsHandshake(frame.bytes)) handshake.Receive(frame.from, frame.bytes, now);
//     while (handshake.NextSession(&peer)) verifier.Admit(peer.node, peer.session_id);
//     while (handshake.NextMismatch(&mismatch)) LOG(WARNING) << mismatch.text;
//     if (handshake.TakeRaise(&raise)) ... make a new FrameSigner for handshake.session_id() ...
//     const size_t count = handshake.Send(room, now);
//     ... transmit room[0 ... count) ...
//   }
//
// Not thread-safe. Receive may allocate when it accepts a message.
#ifndef MILLRACE_SEGMENT_HANDSHAKE_HANDSHAKE_H_
#define MILLRACE_SEGMENT_HANDSHAKE_HANDSHAKE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/node_id.h"
#include "segment/auth/nonce.h"
#include "segment/auth/openssl_mac.h"
#include "segment/handshake/handshake_message.h"

namespace millrace::inline segment {

struct HandshakeConfig {
  uint64_t run = 0;  // equal on all nodes of a run, different between runs
  NodeId node = 0;   // this node
  // Larger at each start of this node. If a peer knows an earlier start by one at least as large,
  // the node takes the next larger one (TakeRaise).
  uint32_t incarnation = 1;
  // Names by node id, including this node's. Empty: there is no such node.
  std::vector<std::string> names;
  CompatibilityInfo settings;
  // One transmission reaches all peers: TransportInfo::multicast.
  bool multicast = false;

  // Retransmit interval to a peer whose session is not confirmed, before jitter of up to a half:
  // starts at first_ns and doubles up to slow_ns.
  int64_t first_ns = 100'000'000;
  int64_t slow_ns = 1'000'000'000;

  // A node that receives only mismatches gives up after this time. Mismatches expire when none is
  // received for as long.
  int64_t give_up_ns = 10'000'000'000;
};

// A peer whose session is established.
struct PeerSession {
  NodeId node = 0;
  uint32_t incarnation = 0;
  Nonce session_id = kNoNonce;
};

// Why a peer is refused.
struct ConfigMismatch {
  NodeId node = 0;
  // One line, such as "node b has another net: 431080 parameters, here 430500".
  std::string text;
  // The peer has echoed a challenge of this node's session, under the key if there is one. False if
  // keys or versions differ: anyone may have sent the message.
  bool authenticated = false;
  Nonce session_id = kNoNonce;  // as the peer states it; none if its version differs
};

// Whether a node that is not a member of a run may join one.
enum class JoinVerdict : uint8_t {
  kMayJoin,
  kWait,    // peers refuse this node, and it has found no compatible peer
  kGiveUp,  // kWait has lasted for give_up_ns
};

// An incarnation raise of this node: a peer knew an earlier start of it by an incarnation at least
// as large.
struct IncarnationRaise {
  NodeId peer = 0;
  uint32_t refused = 0;  // this node's until now
  uint32_t known = 0;    // this node's, as the peer knew it
};

// A frame to send, in the caller's memory.
struct OutHandshake {
  NodeId to = kAllNodes;
  HandshakeBytes bytes;
};

// Counters since construction.
struct HandshakeStats {
  uint64_t sent = 0;
  uint64_t rate_limited = 0;  // replies withheld because the peer's allowance was used up
  uint64_t sessions = 0;      // sessions established with peers
  DropCounts received;        // messages; kNone: accepted
};

class Handshake {
 public:
  // `cluster`: the cluster's key, null for a run without a key; not needed after the call. `random`
  // must be unpredictable in production: SystemRandom. Throws Error if a name is too long, this
  // node has no name, or max_nodes is below the number of names or above kMaxNodes.
  Handshake(const HandshakeConfig& config, const SecretKey* cluster, RandomBytes random);
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  // Names this node's session; its FrameSigner is made for it. Both values change with a raise.
  const Nonce& session_id() const { return session_id_; }
  uint32_t incarnation() const { return incarnation_; }

  // Handles a received frame of any content. `from`: the sender according to the transport. The
  // bytes are not needed after the call.
  DropReason Receive(NodeId from, std::span<const std::byte> bytes, int64_t now);
  // Writes due frames to the front of `room` and returns their number. The caller may drop frames
  // that it cannot transmit.
  size_t Send(std::span<OutHandshake> room, int64_t now);
  // Earliest time at which Send may have frames if nothing is received before. INT64_MIN or a time
  // in the past: now. INT64_MAX: never.
  int64_t NextEvent() const { return next_event_; }

  // The peer has echoed a challenge, and its settings are compatible.
  bool IsEstablished(NodeId node) const;
  // The peer has also accepted this node's session.
  bool IsConfirmed(NodeId node) const;
  // The established session; none unless IsEstablished.
  std::optional<PeerSession> Peer(NodeId node) const;
  // The last mismatch recorded for the peer; none if there was none or a session was accepted
  // since.
  std::optional<ConfigMismatch> MismatchOf(NodeId node) const;

  // Takes the next new session, with its current state; false: no more. Each session is returned
  // once. A session that was replaced before the call is skipped.
  bool NextSession(PeerSession* session);
  // Takes the next mismatch; false: no more. An authenticated mismatch is returned once per session
  // of the peer; an unauthenticated one once per kind until the peer's session is accepted.
  // Mismatches of one peer are at least slow_ns apart, then twice as long each time, up to 512
  // times slow_ns.
  bool NextMismatch(ConfigMismatch* mismatch);
  // True once after each raise. Each peer can cause one raise in the lifetime of this object, and
  // none exceeds kLatestIncarnation.
  bool TakeRaise(IncarnationRaise* raise);

  // For a node that is not a member yet. One compatible peer suffices for kMayJoin.
  JoinVerdict Verdict(int64_t now) const;
  // One line: the mismatch behind kWait or kGiveUp, an authenticated one if there was any.
  const std::string& verdict_reason() const { return unresolved_.reason; }
  // When kWait ends if nothing is received before.
  int64_t wait_ends() const { return unresolved_.last + config_.give_up_ns; }

  const HandshakeStats& stats() const { return stats_; }

 private:
  // Kinds of unauthenticated mismatches: where keys or versions differ, a peer cannot be
  // authenticated.
  enum Unauthenticated : uint8_t {
    kVersionDiffers = 1,
    kNoKey = 2,
    kForeignKey = 4,
    kTagDiffers = 8
  };

  struct PeerState {
    NodeId node = 0;
    bool known = false;      // `session_id` and `incarnation` are accepted
    bool confirmed = false;  // that session has accepted this node's
    bool raised = false;     // the peer has caused a raise
    bool barred = false;     // it knows a later start of this node, which cannot raise again
    Nonce session_id = kNoNonce;
    uint32_t incarnation = 0;
    Nonce challenge = kNoNonce;  // to the peer, until it is echoed
    Nonce theirs = kNoNonce;     // the peer's last challenge

    int64_t next_send = INT64_MIN;  // unless complete()
    int64_t interval = 0;
    bool answer = false;               // a reply is due
    bool ask = false;                  // the reply requests a reply
    int64_t answers_paid = INT64_MIN;  // its reply allowance is used up to this time

    std::optional<ConfigMismatch> mismatch;
    bool in_established = false, in_mismatched = false;  // in the queues below
    uint8_t unauthenticated_reported = 0;                // bits of Unauthenticated
    int64_t next_mismatch = INT64_MIN, mismatch_interval = 0;

    bool complete() const { return known && confirmed; }
  };

  // Mismatches received without a gap of give_up_ns.
  struct Unresolved {
    std::string reason;  // "": none
    bool authenticated = false;
    int64_t since = 0, last = 0;
  };

  PeerState* Find(NodeId node);
  const PeerState* Find(NodeId node) const;
  DropReason Take(NodeId from, std::span<const std::byte> bytes, int64_t now);
  DropReason CheckKey(const HandshakeMessage& in, std::span<const std::byte> bytes);
  DropReason Validate(PeerState* peer, const HandshakeMessage& in, int64_t now);
  std::string MismatchText(const PeerState& peer, const HandshakeMessage& in) const;
  void Accept(PeerState* peer, const HandshakeMessage& in, int64_t now);
  void LearnIncarnation(PeerState* peer, const HandshakeMessage& in, int64_t now);
  void Raise(PeerState* peer, uint32_t known, int64_t now);
  bool MetCompatible() const;
  void RefuseUnauthenticated(PeerState* peer, DropReason drop, const HandshakeMessage& in,
                             int64_t now);
  void Record(const std::string& text, bool authenticated, int64_t now);
  void Report(PeerState* peer, ConfigMismatch mismatch, int64_t now);
  void ScheduleReply(PeerState* peer, bool ask, int64_t now);
  int64_t DueAt(const PeerState& peer) const;
  void PutOff(PeerState* peer, int64_t now);
  bool SendToAll(OutHandshake* out, int64_t now);
  void SendTo(PeerState* peer, OutHandshake* out, int64_t now);
  void Write(const HandshakeMessage& ours, OutHandshake* out);
  HandshakeMessage Ours(bool wants_answer) const;

  const HandshakeConfig config_;
  const RandomBytes random_;
  std::optional<HmacSha256> mac_;  // only with a key
  Nonce session_id_;
  uint32_t incarnation_;
  std::vector<PeerState> peers_;
  std::vector<size_t> index_;  // by node: index in peers_; SIZE_MAX: no peer
  size_t first_ = 0;           // peer served first, so that a small `room` starves none
  int64_t next_event_ = INT64_MIN;
  std::deque<NodeId> established_, mismatched_;  // to be reported, each node once
  Unresolved unresolved_;
  std::optional<IncarnationRaise> raise_;
  HandshakeStats stats_;
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_HANDSHAKE_HANDSHAKE_H_
