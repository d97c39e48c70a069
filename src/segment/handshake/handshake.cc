#include "segment/handshake/handshake.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/jitter.h"
#include "exchange/protocol/frame.h"
#include "segment/auth/key_file.h"

namespace millrace::inline segment {
namespace {

// Replies that a peer may get in a burst; it earns another one every slow_ns. A first handshake
// needs two.
constexpr int64_t kAnswersAtOnce = 4;
// Upper bound on the interval between mismatches reported for one peer, in multiples of slow_ns.
constexpr int64_t kSlowestMismatch = 512;

const HandshakeConfig& Checked(const HandshakeConfig& config) {
  if (config.node >= config.names.size() || config.names[config.node].empty()) {
    throw Error("node ", config.node, ": no node of the cluster has this id");
  }
  if (config.names.size() > config.settings.max_nodes || config.settings.max_nodes > kMaxNodes) {
    throw Error("max_nodes is ", config.settings.max_nodes, "; expected ", config.names.size(),
                " (the ids of the cluster) to ", kMaxNodes);
  }
  for (const std::string& name : config.names) {
    if (name.size() <= kNodeNameBytes && name.find('\0') == std::string::npos) continue;
    throw Error("node ", name, ": expected a name of at most ", kNodeNameBytes, " letters");
  }
  return config;
}

}  // namespace

Handshake::Handshake(const HandshakeConfig& config, const SecretKey* cluster, RandomBytes random)
    : config_(Checked(config)),
      random_(std::move(random)),
      session_id_(DrawNonce(random_)),
      incarnation_(config_.incarnation) {
  if (cluster != nullptr) mac_.emplace(HandshakeKey(*cluster, config_.run));
  index_.assign(config_.names.size(), SIZE_MAX);
  for (size_t node = 0; node < config_.names.size(); ++node) {
    if (node == config_.node || config_.names[node].empty()) continue;
    index_[node] = peers_.size();
    PeerState& peer = peers_.emplace_back();
    peer.node = static_cast<NodeId>(node);
    peer.challenge = DrawNonce(random_);
    peer.interval = config_.first_ns;
    peer.mismatch_interval = config_.slow_ns;
  }
}

const Handshake::PeerState* Handshake::Find(NodeId node) const {
  return node < index_.size() && index_[node] != SIZE_MAX ? &peers_[index_[node]] : nullptr;
}

Handshake::PeerState* Handshake::Find(NodeId node) {
  return const_cast<PeerState*>(std::as_const(*this).Find(node));
}

bool Handshake::IsEstablished(NodeId node) const {
  const PeerState* peer = Find(node);
  return peer != nullptr && peer->known;
}

bool Handshake::IsConfirmed(NodeId node) const {
  const PeerState* peer = Find(node);
  return peer != nullptr && peer->complete();
}

std::optional<PeerSession> Handshake::Peer(NodeId node) const {
  if (!IsEstablished(node)) return std::nullopt;
  const PeerState& peer = *Find(node);
  return PeerSession{node, peer.incarnation, peer.session_id};
}

std::optional<ConfigMismatch> Handshake::MismatchOf(NodeId node) const {
  const PeerState* peer = Find(node);
  return peer != nullptr ? peer->mismatch : std::nullopt;
}

bool Handshake::NextSession(PeerSession* session) {
  if (established_.empty()) return false;
  *session = *Peer(established_.front());
  Find(established_.front())->in_established = false;
  established_.pop_front();
  return true;
}

bool Handshake::NextMismatch(ConfigMismatch* mismatch) {
  while (!mismatched_.empty()) {
    PeerState* peer = Find(mismatched_.front());
    mismatched_.pop_front();
    peer->in_mismatched = false;
    if (!peer->mismatch.has_value()) continue;  // its session was accepted since
    *mismatch = *peer->mismatch;
    return true;
  }
  return false;
}

// ---- Receiving. -------------------------------------------------------------

DropReason Handshake::Receive(NodeId from, std::span<const std::byte> bytes, int64_t now) {
  const DropReason drop = Take(from, bytes, now);
  stats_.received.Add(drop);
  return drop;
}

DropReason Handshake::Take(NodeId from, std::span<const std::byte> bytes, int64_t now) {
  HandshakeMessage in;
  DropReason drop = DecodeHandshake(bytes, &in);
  if (drop != DropReason::kNone && drop != DropReason::kVersion) return drop;
  if (in.run != config_.run) return DropReason::kRun;
  if (in.source == config_.node) return DropReason::kSelf;
  // In another version only the run and the source can be read.
  const bool to_us = in.destination == config_.node || in.destination == kAllNodes;
  if (drop == DropReason::kNone && !to_us) return DropReason::kDestination;
  PeerState* peer = Find(in.source);
  if (peer == nullptr) return DropReason::kStranger;
  if (from != in.source) return DropReason::kSourceMismatch;
  if (drop == DropReason::kNone) drop = CheckKey(in, bytes);
  next_event_ = INT64_MIN;
  if (drop == DropReason::kNone) return Validate(peer, in, now);
  RefuseUnauthenticated(peer, drop, in, now);
  return drop;
}

DropReason Handshake::CheckKey(const HandshakeMessage& in, std::span<const std::byte> bytes) {
  if (!mac_.has_value()) return in.keyed ? DropReason::kForeignKey : DropReason::kNone;
  if (!in.keyed) return DropReason::kNoKey;
  Tag tag;
  mac_->Make(bytes.first(kHandshakeTagged), tag);
  return SameTag(tag, bytes.last<kTagBytes>()) ? DropReason::kNone : DropReason::kBadTag;
}

// Handles a message in the peer's name, authenticated if there is a key. It may be a recording
// unless it echoes the challenge.
DropReason Handshake::Validate(PeerState* peer, const HandshakeMessage& in, int64_t now) {
  if (in.challenge != kNoNonce) peer->theirs = in.challenge;
  const bool fresh = in.echo == peer->challenge;
  if (fresh) peer->challenge = DrawNonce(random_);  // each challenge counts once
  DropReason drop = DropReason::kNone;
  if (peer->known && in.session_id == peer->session_id) {
    peer->confirmed = peer->confirmed || in.known == session_id_;
  } else if (!fresh) {
    drop = DropReason::kUnauthenticated;
  } else if (std::string diff = MismatchText(*peer, in); !diff.empty()) {
    Record(diff, true, now);
    Report(peer, {peer->node, std::move(diff), true, in.session_id}, now);
    drop = DropReason::kDiffers;
  } else {
    Accept(peer, in, now);
  }
  if (drop == DropReason::kNone && fresh) LearnIncarnation(peer, in, now);
  const bool done = drop == DropReason::kNone && peer->complete();
  // An established and confirmed peer multicasts for the sake of others and needs no reply.
  const bool needs_reply = in.wants_answer && !(done && in.destination == kAllNodes);
  if (needs_reply) ScheduleReply(peer, !done, now);
  return drop;
}

std::string Handshake::MismatchText(const PeerState& peer, const HandshakeMessage& in) const {
  const CompatibilityInfo &theirs = in.settings, &ours = config_.settings;
  const std::string& name = config_.names[in.source];
  if (in.name != name) {
    return OneLine(StrCat("node ", in.source, " names itself ", in.name, ", expected ", name));
  }
  const std::string has = StrCat("node ", name, " has another ");
  if (theirs.frame_version != ours.frame_version) {
    return OneLine(StrCat(has, "version of frames: ", int{theirs.frame_version}, ", here ",
                          int{ours.frame_version}));
  }
  if (theirs.max_nodes != ours.max_nodes) {
    return OneLine(StrCat(has, "max_nodes: ", theirs.max_nodes, ", here ", ours.max_nodes));
  }
  if (theirs.parameters != ours.parameters) {
    return OneLine(StrCat(has, "net: ", theirs.parameters, " parameters, here ", ours.parameters));
  }
  if (theirs.layout_digest != ours.layout_digest) {
    return OneLine(StrCat(has, "net: as many parameters, under other names or in other shapes"));
  }
  if (theirs.chunk_floats != ours.chunk_floats) {
    return OneLine(
        StrCat(has, "chunk size: ", theirs.chunk_floats, " floats, here ", ours.chunk_floats));
  }
  if (theirs.topology_digest != ours.topology_digest) return OneLine(has + "topology file");
  if (theirs.max_iter != ours.max_iter && theirs.max_iter != 0 && ours.max_iter != 0) {
    return OneLine(StrCat(has, "max_iter: ", theirs.max_iter, ", here ", ours.max_iter));
  }
  // The node id is in use: by a later start, or by another process with the same clock.
  if (peer.known && in.incarnation <= peer.incarnation) {
    return OneLine(StrCat("node ", name, " is known by a start as late as this one: ",
                          peer.incarnation, ", here ", in.incarnation));
  }
  return "";
}

void Handshake::Accept(PeerState* peer, const HandshakeMessage& in, int64_t now) {
  peer->known = true;
  peer->confirmed = in.known == session_id_;
  peer->session_id = in.session_id;
  peer->incarnation = in.incarnation;
  peer->mismatch.reset();
  peer->unauthenticated_reported = 0;
  peer->interval = config_.first_ns;
  peer->next_send = now;
  ++stats_.sessions;
  if (!peer->in_established) established_.push_back(peer->node);
  peer->in_established = true;
}

void Handshake::RefuseUnauthenticated(PeerState* peer, DropReason drop, const HandshakeMessage& in,
                                      int64_t now) {
  const std::string name = "node " + config_.names[peer->node];
  Unauthenticated kind = kVersionDiffers;
  ConfigMismatch mismatch{peer->node, name + " runs another version of millrace", false,
                          in.session_id};
  if (drop == DropReason::kNoKey) {
    kind = kNoKey;
    mismatch.text = name + " uses no key, here one is used";
  } else if (drop == DropReason::kForeignKey) {
    kind = kForeignKey;
    mismatch.text = name + " uses a key, here none is used";
  } else if (drop == DropReason::kBadTag) {
    kind = kTagDiffers;
    mismatch.text = name + " uses another key";
  }
  mismatch.text = OneLine(std::move(mismatch.text));
  Record(mismatch.text, false, now);
  if ((peer->unauthenticated_reported & kind) == 0 && now >= peer->next_mismatch) {
    peer->unauthenticated_reported |= kind;
    Report(peer, std::move(mismatch), now);
  }
  // The peer may be the misconfigured one: a reply lets it detect the mismatch too.
  if (in.wants_answer || drop == DropReason::kVersion) ScheduleReply(peer, false, now);
}

void Handshake::Report(PeerState* peer, ConfigMismatch mismatch, int64_t now) {
  const auto& last = peer->mismatch;
  const bool reported = last.has_value() && last->authenticated && mismatch.authenticated &&
                        last->session_id == mismatch.session_id && last->text == mismatch.text;
  if (reported || now < peer->next_mismatch) return;
  peer->mismatch = std::move(mismatch);
  peer->next_mismatch = now + peer->mismatch_interval;
  peer->mismatch_interval =
      std::min(2 * peer->mismatch_interval, kSlowestMismatch * config_.slow_ns);
  if (!peer->in_mismatched) mismatched_.push_back(peer->node);
  peer->in_mismatched = true;
}

void Handshake::ScheduleReply(PeerState* peer, bool ask, int64_t now) {
  if (!peer->answer) {
    const int64_t paid = std::max(peer->answers_paid, now);
    if (paid - now > (kAnswersAtOnce - 1) * config_.slow_ns) {
      ++stats_.rate_limited;
      return;
    }
    peer->answers_paid = paid + config_.slow_ns;
  }
  peer->answer = true;
  peer->ask = peer->ask || ask;
}

// ---- Sending. ---------------------------------------------------------------

int64_t Handshake::DueAt(const PeerState& peer) const {
  if (peer.answer) return INT64_MIN;
  return peer.complete() ? INT64_MAX : peer.next_send;
}

size_t Handshake::Send(std::span<OutHandshake> room, int64_t now) {
  if (now < next_event_ || room.empty()) return 0;
  size_t count = config_.multicast && SendToAll(&room[0], now) ? 1 : 0;
  size_t turn = 0;
  for (; turn < peers_.size(); ++turn) {
    PeerState& peer = peers_[(first_ + turn) % peers_.size()];
    if (DueAt(peer) > now) continue;
    if (count == room.size()) break;
    SendTo(&peer, &room[count++], now);
  }
  if (!peers_.empty()) first_ = (first_ + turn) % peers_.size();
  next_event_ = INT64_MAX;
  for (const PeerState& peer : peers_) next_event_ = std::min(next_event_, DueAt(peer));
  return count;
}

// Multicasts one frame instead of one to each peer without a session. It has no challenge, so the
// peers reply with theirs.
bool Handshake::SendToAll(OutHandshake* out, int64_t now) {
  size_t unknown = 0;
  bool due = false;
  for (const PeerState& peer : peers_) {
    if (peer.known) continue;
    ++unknown;
    due = due || peer.next_send <= now;
  }
  if (!due || unknown < 2) return false;
  for (PeerState& peer : peers_) {
    if (!peer.known) PutOff(&peer, now);
  }
  Write(Ours(true), out);
  return true;
}

void Handshake::SendTo(PeerState* peer, OutHandshake* out, int64_t now) {
  const bool timed = !peer->complete() && peer->next_send <= now;
  HandshakeMessage ours = Ours(timed || peer->ask);
  ours.destination = peer->node;
  ours.challenge = peer->challenge;
  ours.echo = peer->theirs;
  if (peer->known) {
    ours.known = peer->session_id;
    ours.known_incarnation = peer->incarnation;
  }
  peer->answer = peer->ask = false;
  PutOff(peer, now);
  Write(ours, out);
}

void Handshake::PutOff(PeerState* peer, int64_t now) {
  const bool timed = peer->next_send <= now;
  peer->next_send = now + Spread(peer->interval, config_.node, stats_.sent);
  if (timed) peer->interval = std::min(2 * peer->interval, config_.slow_ns);
}

HandshakeMessage Handshake::Ours(bool wants_answer) const {
  HandshakeMessage ours;
  ours.wants_answer = wants_answer;
  ours.keyed = mac_.has_value();
  ours.run = config_.run;
  ours.source = config_.node;
  ours.incarnation = incarnation_;
  ours.settings = config_.settings;
  ours.session_id = session_id_;
  ours.name = config_.names[config_.node];
  return ours;
}

void Handshake::Write(const HandshakeMessage& ours, OutHandshake* out) {
  out->to = ours.destination;
  EncodeHandshake(ours, &out->bytes);
  if (mac_.has_value()) {
    mac_->Make(std::span(out->bytes).first(kHandshakeTagged),
               std::span(out->bytes).last<kTagBytes>());
  }
  ++stats_.sent;
}

}  // namespace millrace::inline segment
