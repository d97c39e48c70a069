// How the nodes of a run come to believe each other: who is there, in which life, and
// whether both are set up alike. Frames of a peer are for the exchange only after Knows.
//
// Pure logic: frames, random bytes and the time go in, frames come out; no sockets, no
// clock, no threads. docs/handshake.md has the rules and the bytes.
//
//   Handshake messages handshake messages(config, &key, SystemRandom);
//   for (;;) {
//     for each frame that came:
//       if (IsHandshake(frame.bytes)) handshake messages.Receive(frame.from, frame.bytes, now);
//     while (handshake messages.NextSession(&peer)) opener.Admit(peer.node, peer.life);
//     while (handshake messages.NextMismatch(&mismatch)) LOG(WARNING) << mismatch.text;
//     if (handshake messages.TakeRaise(&raise)) ... frames are of handshake messages.life() from
//     now on const size_t count = handshake messages.Send(room, now);
//     ... transmit room[0 ... count) ...
//   }
//
// Not thread-safe. An handshake message that is taken may allocate.
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

#include "base/node_id.h"
#include "segment/auth/nonce.h"
#include "segment/auth/openssl_mac.h"
#include "segment/handshake/handshake_message.h"

namespace millrace {

struct HandshakeConfig {
  uint64_t run = 0;  // equal on all nodes of a run, different between runs
  NodeId node = 0;   // this one
  // Larger each time that this node is started; where a peer knows a later one, the node goes
  // on with the one after that.
  uint32_t incarnation = 1;
  // By node id, this one's included; empty: there is no such node.
  std::vector<std::string> names;
  CompatibilityInfo settings;
  // A frame to all nodes costs one transmission: TransportInfo::multicast.
  bool multicast = false;

  // A peer that is not known is written to after this long, then after twice as long,
  // until it is the longer of the two.
  int64_t first_ns = 100'000'000;
  int64_t slow_ns = 1'000'000'000;

  // A node that hears only of mismatches gives up after this long. A mismatch counts until it
  // has not been heard of for as long.
  int64_t patience_ns = 10'000'000'000;
};

// No node takes a later incarnation because of what a peer says: the exchange needs those
// beyond, one each time that a node begins anew.
inline constexpr uint32_t kLatestIncarnation = UINT32_MAX - (uint32_t{1} << 24);

// A peer that has completed the handshake.
struct PeerSession {
  NodeId node = 0;
  uint32_t incarnation = 0;
  Nonce session_id = kNoNonce;
};

// Why a peer is not believed.
struct ConfigMismatch {
  NodeId node = 0;
  // One line: "node b has another net: 431080 parameters, here 430500".
  std::string text;
  // The peer has answered this life's challenge (under the key, if there is one). Else,
  // where keys or versions differ, anyone may have sent it.
  bool proven = false;
  Nonce session_id = kNoNonce;  // the peer's, as it says; none if its version is another
};

// Whether a node that is no member of a run yet may become one.
enum class JoinVerdict : uint8_t {
  kMayJoin,
  kWait,    // peers refuse it, and it has not met any that is set up alike
  kGiveUp,  // it has been so for patience_ns
};

// A peer knows an earlier start of this node by an incarnation as late as this one's, so this
// node has taken a later one.
struct IncarnationRaise {
  NodeId peer = 0;
  uint32_t refused = 0;  // this node's until now
  uint32_t known = 0;    // the peer's of this node
};

// A frame to send, in memory of the caller's.
struct OutHandshake {
  NodeId to = kAllNodes;
  HandshakeBytes bytes;
};

// Counted since the object was made.
struct HandshakeStats {
  uint64_t sent = 0;
  uint64_t rate_limited = 0;  // answers not given, because the peer had had enough of them
  uint64_t sessions = 0;      // of peers that have proven themselves
  uint64_t refused = 0;       // received for which the reason was not kNone
  HandshakeDrops received{};  // by HandshakeDrop
};

class Handshake {
 public:
  // `cluster`: null for a run without a key; not needed after the call. `random` has to be
  // unpredictable where it matters: SystemRandom. Throws Error if a name is too long, this
  // node has none, or there are more names than max_nodes.
  Handshake(const HandshakeConfig& config, const SecretKey* cluster, RandomBytes random);
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  // This node's life: what its Sealer is made for. Both change when a raise is taken.
  const Nonce& session_id() const { return session_id_; }
  uint32_t incarnation() const { return incarnation_; }

  // Takes one frame, whatever it holds. `from`: the sender as the transport knows it. The
  // bytes are not needed after the call.
  HandshakeDrop Receive(NodeId from, std::span<const std::byte> bytes, int64_t now);
  // Fills the front of `room` and returns how many. A frame that cannot be transmitted may
  // be thrown away.
  size_t Send(std::span<OutHandshake> room, int64_t now);
  // When Send may have something to do if nothing comes before: INT64_MIN or any time that
  // has passed for at once, INT64_MAX for never.
  int64_t NextEvent() const { return next_event_; }

  // The peer has proven itself and is set up as this node is.
  bool IsEstablished(NodeId node) const;
  // It has also said that it knows this node's life.
  bool IsConfirmed(NodeId node) const;
  // All peers are known.
  bool AllEstablished() const { return known_ == peers_.size(); }
  // The life that is believed; none unless Knows.
  std::optional<PeerSession> Peer(NodeId node) const;
  // Why the last handshake message in that name was refused; none if it was not, or another
  // was believed since.
  std::optional<ConfigMismatch> MismatchOf(NodeId node) const;

  // Peers newly believed, each once a life, as they are now; false: no more. A peer that
  // was replaced before it was asked for is told of once.
  bool NextSession(PeerSession* introduced);
  // Mismatches not told of yet: each once a peer and life, and of one peer at most one in
  // slow_ns, then in twice as long each time, up to 512 times; what nobody has proven, once
  // until the peer proves itself.
  bool NextMismatch(ConfigMismatch* mismatch);
  // True once after a raise. In the life of this object each peer can cause one, and none
  // goes beyond kLatestIncarnation.
  bool TakeRaise(IncarnationRaise* raise);

  // For a node that is no member yet. One peer that is set up alike suffices for kMayJoin.
  JoinVerdict Verdict(int64_t now) const;
  // One line: the mismatch behind kWait and kGiveUp, a proven one if there was any.
  const std::string& verdict_reason() const { return unresolved_.reason; }
  // When kWait will be over if nothing is received until then.
  int64_t wait_ends() const { return unresolved_.last + config_.patience_ns; }

  const HandshakeStats& stats() const { return stats_; }

 private:
  // Where keys and versions differ, nothing can be proven.
  enum Unauthenticated : uint8_t {
    kVersionDiffers = 1,
    kNoKey = 2,
    kForeignKey = 4,
    kTagDiffers = 8
  };

  struct PeerState {
    NodeId node = 0;
    bool known = false;      // `life` and `incarnation` are believed
    bool confirmed = false;  // that life has said that it knows this node's
    bool raised = false;     // it has caused a raise
    bool barred = false;     // it knows a later start of this node, which can not raise again
    Nonce session_id = kNoNonce;
    uint32_t incarnation = 0;
    Nonce challenge = kNoNonce;  // this node's to it, until it was echoed
    Nonce theirs = kNoNonce;     // its last one to this node

    int64_t next_send = INT64_MIN;  // unless complete
    int64_t interval = 0;
    bool answer = false;               // it is owed one
    bool ask = false;                  // and is to answer that
    int64_t answers_paid = INT64_MIN;  // until when its share of answers is used up

    std::optional<ConfigMismatch> mismatch;
    bool in_established = false, in_mismatched = false;  // of the queues below
    uint8_t unauthenticated_reported = 0;                // of Unproven
    int64_t next_mismatch = INT64_MIN, mismatch_interval = 0;

    bool complete() const { return known && confirmed; }
  };

  // Mismatches heard of without a gap of patience_ns.
  struct Unresolved {
    std::string reason;  // "": there was none
    bool proven = false;
    int64_t since = 0, last = 0;
  };

  PeerState* Find(NodeId node);
  const PeerState* Find(NodeId node) const;
  HandshakeDrop Take(NodeId from, std::span<const std::byte> bytes, int64_t now);
  HandshakeDrop CheckKey(const HandshakeMessage& in, std::span<const std::byte> bytes);
  HandshakeDrop Validate(PeerState* peer, const HandshakeMessage& in, int64_t now);
  std::string MismatchText(const PeerState& peer, const HandshakeMessage& in) const;
  void Accept(PeerState* peer, const HandshakeMessage& in, int64_t now);
  void LearnIncarnation(PeerState* peer, const HandshakeMessage& in, int64_t now);
  void Raise(PeerState* peer, uint32_t known, int64_t now);
  bool MetCompatible() const;
  void RefuseUnauthenticated(PeerState* peer, HandshakeDrop drop, const HandshakeMessage& in,
                             int64_t now);
  void Record(const std::string& text, bool proven, int64_t now);
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
  std::optional<HmacSha256> mac_;  // if there is a key
  Nonce session_id_;
  uint32_t incarnation_;
  std::vector<PeerState> peers_;
  std::vector<size_t> index_;  // by node: of peers_, or as many as there are
  size_t known_ = 0;
  size_t first_ = 0;  // the peer whose turn is first, so that little room starves nobody
  int64_t next_event_ = INT64_MIN;
  std::deque<NodeId> established_, mismatched_;  // to tell of, each node once
  Unresolved unresolved_;
  std::optional<IncarnationRaise> raise_;
  HandshakeStats stats_;
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_HANDSHAKE_HANDSHAKE_H_
