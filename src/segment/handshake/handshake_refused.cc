// Effects of refusals by peers: whether this node may join or bootstrap a run, and which
// incarnation it uses.
#include <algorithm>

#include "base/error.h"
#include "segment/handshake/handshake.h"

namespace millrace::inline segment {

JoinVerdict Handshake::Verdict(int64_t now) const {
  if (unresolved_.reason.empty() || now > wait_ends() || MetCompatible()) {
    return JoinVerdict::kMayJoin;
  }
  const bool long_enough = unresolved_.last - unresolved_.since >= config_.give_up_ns;
  return long_enough ? JoinVerdict::kGiveUp : JoinVerdict::kWait;
}

bool Handshake::MetCompatible() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const PeerState& peer) { return peer.known && !peer.barred; });
}

void Handshake::Record(const std::string& text, bool authenticated, int64_t now) {
  const bool lasts = !unresolved_.reason.empty() && now <= wait_ends();
  if (!lasts) unresolved_ = {.reason = "", .authenticated = false, .since = now, .last = now};
  unresolved_.last = now;
  if (unresolved_.authenticated && !authenticated) return;
  unresolved_.reason = text;
  unresolved_.authenticated = authenticated;
}

// ---- Incarnation raise. -----------------------------------------------------

bool Handshake::TakeRaise(IncarnationRaise* raise) {
  if (!raise_.has_value()) return false;
  *raise = *raise_;
  raise_.reset();
  return true;
}

// `in` belongs to the accepted session and echoes this node's challenge. So it is not a replay and,
// if there is a key, not forged.
void Handshake::LearnIncarnation(PeerState* peer, const HandshakeMessage& in, int64_t now) {
  if (in.known == session_id_) peer->barred = false;
  if (in.known == kNoNonce || in.known == session_id_ || in.known_incarnation < incarnation_)
    return;
  if (!peer->raised && in.known_incarnation < kLatestIncarnation) {
    return Raise(peer, in.known_incarnation, now);
  }
  // A clock that was set back does not explain this: two processes run as this node, or messages
  // are forged.
  peer->barred = true;
  const std::string text = OneLine(
      StrCat("node ", config_.names[peer->node],
             " knows a later start of this node: ", in.known_incarnation, ", here ", incarnation_));
  Record(text, true, now);
  Report(peer, {peer->node, text, true, in.session_id}, now);
}

// Begins a new session with all peers: none may take its frames for those of the earlier
// incarnation.
void Handshake::Raise(PeerState* peer, uint32_t known, int64_t now) {
  raise_ = {peer->node, incarnation_, known};
  peer->raised = true;
  incarnation_ = known + 1;
  session_id_ = DrawNonce(random_);
  for (PeerState& each : peers_) {
    each.confirmed = false;
    each.interval = config_.first_ns;
    each.next_send = now;
  }
}

}  // namespace millrace::inline segment
