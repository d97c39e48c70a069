// How the nodes of a run come to believe each other: who is there, in which life, and
// whether both are set up alike. Frames of a peer are for the exchange only after Knows.
//
// Pure logic: frames, random bytes and the time go in, frames come out; no sockets, no
// clock, no threads. docs/introductions.md has the rules and the bytes.
//
//   Introductions introductions(config, &key, SystemRandom);
//   for (;;) {
//     for each frame that came:
//       if (IsIntroduction(frame.bytes)) introductions.Receive(frame.from, frame.bytes, now);
//     while (introductions.NextIntroduced(&peer)) opener.Admit(peer.node, peer.life);
//     while (introductions.NextMismatch(&mismatch)) LOG(WARNING) << mismatch.text;
//     if (introductions.TakeRaise(&raise)) ... frames are of introductions.life() from now on
//     const size_t count = introductions.Send(room, now);
//     ... transmit room[0 ... count) ...
//   }
//
// Not thread-safe. An introduction that is taken may allocate.
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
#include "segment/handshake/handshake_message.h"
#include "segment/auth/nonce.h"
#include "segment/auth/openssl_mac.h"

namespace millrace {

struct IntroductionsConfig {
  uint64_t run = 0;  // equal on all nodes of a run, different between runs
  NodeId node = 0;   // this one
  // Larger each time that this node is started; where a peer knows a later one, the node goes
  // on with the one after that.
  uint32_t incarnation = 1;
  // By node id, this one's included; empty: there is no such node.
  std::vector<std::string> names;
  SharedSettings settings;
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

// A peer that has introduced itself.
struct Introduced {
  NodeId node = 0;
  uint32_t incarnation = 0;
  Nonce life = kNoNonce;
};

// Why a peer is not believed.
struct Mismatch {
  NodeId node = 0;
  // One line: "node b has another net: 431080 parameters, here 430500".
  std::string text;
  // The peer has answered this life's challenge (under the key, if there is one). Else,
  // where keys or versions differ, anyone may have sent it.
  bool proven = false;
  Nonce life = kNoNonce;  // the peer's, as it says; none if its version is another
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
struct OutIntroduction {
  NodeId to = kAllNodes;
  IntroductionBytes bytes;
};

// Counted since the object was made.
struct IntroductionStats {
  uint64_t sent = 0;
  uint64_t withheld = 0;  // answers not given, because the peer had had enough of them
  uint64_t lives = 0;     // of peers that have proven themselves
  uint64_t refused = 0;   // received for which the reason was not kNone
  IntroDrops received{};  // by IntroDrop
};

class Introductions {
 public:
  // `cluster`: null for a run without a key; not needed after the call. `random` has to be
  // unpredictable where it matters: SystemRandom. Throws Error if a name is too long, this
  // node has none, or there are more names than max_nodes.
  Introductions(const IntroductionsConfig& config, const SecretKey* cluster, RandomBytes random);
  Introductions(const Introductions&) = delete;
  Introductions& operator=(const Introductions&) = delete;

  // This node's life: what its Sealer is made for. Both change when a raise is taken.
  const Nonce& life() const { return life_; }
  uint32_t incarnation() const { return incarnation_; }

  // Takes one frame, whatever it holds. `from`: the sender as the transport knows it. The
  // bytes are not needed after the call.
  IntroDrop Receive(NodeId from, std::span<const std::byte> bytes, int64_t now);
  // Fills the front of `room` and returns how many. A frame that cannot be transmitted may
  // be thrown away.
  size_t Send(std::span<OutIntroduction> room, int64_t now);
  // When Send may have something to do if nothing comes before: INT64_MIN or any time that
  // has passed for at once, INT64_MAX for never.
  int64_t NextEvent() const { return next_event_; }

  // The peer has proven itself and is set up as this node is.
  bool Knows(NodeId node) const;
  // It has also said that it knows this node's life.
  bool KnownBy(NodeId node) const;
  // All peers are known.
  bool KnowsAll() const { return known_ == peers_.size(); }
  // The life that is believed; none unless Knows.
  std::optional<Introduced> Peer(NodeId node) const;
  // Why the last introduction in that name was refused; none if it was not, or another
  // was believed since.
  std::optional<Mismatch> MismatchOf(NodeId node) const;

  // Peers newly believed, each once a life, as they are now; false: no more. A peer that
  // was replaced before it was asked for is told of once.
  bool NextIntroduced(Introduced* introduced);
  // Mismatches not told of yet: each once a peer and life, and of one peer at most one in
  // slow_ns, then in twice as long each time, up to 512 times; what nobody has proven, once
  // until the peer proves itself.
  bool NextMismatch(Mismatch* mismatch);
  // True once after a raise. In the life of this object each peer can cause one, and none
  // goes beyond kLatestIncarnation.
  bool TakeRaise(IncarnationRaise* raise);

  // For a node that is no member yet. One peer that is set up alike suffices for kMayJoin.
  JoinVerdict Verdict(int64_t now) const;
  // One line: the mismatch behind kWait and kGiveUp, a proven one if there was any.
  const std::string& verdict_reason() const { return unresolved_.reason; }
  // When kWait will be over if nothing is received until then.
  int64_t wait_ends() const { return unresolved_.last + config_.patience_ns; }

  const IntroductionStats& stats() const { return stats_; }

 private:
  // Where keys and versions differ, nothing can be proven.
  enum Unproven : uint8_t { kVersionDiffers = 1, kNoKey = 2, kForeignKey = 4, kTagDiffers = 8 };

  struct PeerState {
    NodeId node = 0;
    bool known = false;      // `life` and `incarnation` are believed
    bool confirmed = false;  // that life has said that it knows this node's
    bool raised = false;     // it has caused a raise
    bool barred = false;     // it knows a later start of this node, which can not raise again
    Nonce life = kNoNonce;
    uint32_t incarnation = 0;
    Nonce challenge = kNoNonce;  // this node's to it, until it was echoed
    Nonce theirs = kNoNonce;     // its last one to this node

    int64_t next_send = INT64_MIN;  // unless complete
    int64_t interval = 0;
    bool answer = false;               // it is owed one
    bool ask = false;                  // and is to answer that
    int64_t answers_paid = INT64_MIN;  // until when its share of answers is used up

    std::optional<Mismatch> mismatch;
    bool in_introduced = false, in_mismatched = false;  // of the queues below
    uint8_t unproven_told = 0;                          // of Unproven
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
  IntroDrop Take(NodeId from, std::span<const std::byte> bytes, int64_t now);
  IntroDrop CheckKey(const Introduction& in, std::span<const std::byte> bytes);
  IntroDrop Consider(PeerState* peer, const Introduction& in, int64_t now);
  std::string DifferenceOf(const PeerState& peer, const Introduction& in) const;
  void Believe(PeerState* peer, const Introduction& in, int64_t now);
  void LearnIncarnation(PeerState* peer, const Introduction& in, int64_t now);
  void Raise(PeerState* peer, uint32_t known, int64_t now);
  bool MetCompatible() const;
  void RefuseUnproven(PeerState* peer, IntroDrop drop, const Introduction& in, int64_t now);
  void Record(const std::string& text, bool proven, int64_t now);
  void Tell(PeerState* peer, Mismatch mismatch, int64_t now);
  void Owe(PeerState* peer, bool ask, int64_t now);
  int64_t DueAt(const PeerState& peer) const;
  void PutOff(PeerState* peer, int64_t now);
  bool SendToAll(OutIntroduction* out, int64_t now);
  void SendTo(PeerState* peer, OutIntroduction* out, int64_t now);
  void Write(const Introduction& ours, OutIntroduction* out);
  Introduction Ours(bool wants_answer) const;

  const IntroductionsConfig config_;
  const RandomBytes random_;
  std::optional<MessageTagger> tagger_;  // if there is a key
  Nonce life_;
  uint32_t incarnation_;
  std::vector<PeerState> peers_;
  std::vector<size_t> index_;  // by node: of peers_, or as many as there are
  size_t known_ = 0;
  size_t first_ = 0;  // the peer whose turn is first, so that little room starves nobody
  int64_t next_event_ = INT64_MIN;
  std::deque<NodeId> introduced_, mismatched_;  // to tell of, each node once
  Unresolved unresolved_;
  std::optional<IncarnationRaise> raise_;
  IntroductionStats stats_;
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_HANDSHAKE_HANDSHAKE_H_
