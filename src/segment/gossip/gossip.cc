#include "segment/gossip/gossip.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/jitter.h"

namespace millrace::inline segment {
namespace {

size_t PartBytes(const GossipConfig& config) {
  if (config.max_frame_bytes < kGossipHeadBytes + kGossipFragmentUnit) {
    throw Error("frames of ", config.max_frame_bytes, " bytes: expected at least ",
                kGossipHeadBytes + kGossipFragmentUnit, " for gossip messages");
  }
  const size_t room = config.max_frame_bytes - kGossipHeadBytes;
  return std::min(room / kGossipFragmentUnit * kGossipFragmentUnit, kMaxGossipBytes);
}

}  // namespace

Gossip::Gossip(const GossipConfig& config, GossipStore* store)
    : config_(config),
      incarnation_(config.incarnation),
      fragment_bytes_(PartBytes(config)),
      store_(*store),
      link_(store->AddLink()),
      ours_to_send_(store->entries()),
      assemblies_(store->entries()),
      assembled_(store->entries() * kMaxGossipBytes) {
  for (NodeId node : config.peers) {
    PeerState& peer = peers_.emplace_back();
    peer.node = node;
    peer.pending.resize(store->entries());
    peer.ack_due.resize(store->entries());
    peer.interval = config.first_ns;
  }
}

const Gossip::PeerState* Gossip::Find(NodeId node) const {
  for (const PeerState& peer : peers_) {
    if (peer.node == node) return &peer;
  }
  return nullptr;
}

Gossip::PeerState* Gossip::Find(NodeId node) {
  return const_cast<PeerState*>(std::as_const(*this).Find(node));
}

void Gossip::RaiseIncarnation(uint32_t incarnation) {
  incarnation_ = incarnation;
  store_.RaiseIncarnation(incarnation);
}

void Gossip::Admit(NodeId node, uint32_t incarnation) {
  PeerState* peer = Find(node);
  if (peer == nullptr || peer->incarnation == incarnation) return;
  peer->incarnation = incarnation;
  peer->interval = config_.first_ns;
  peer->next_round = INT64_MIN;
  peer->entry = peer->offset = 0;
  std::fill(peer->ack_due.begin(), peer->ack_due.end(), false);
  peer->acks = 0;
  peer->pending = ours_to_send_;
  peer->pending_count =
      static_cast<size_t>(std::count(peer->pending.begin(), peer->pending.end(), true));
  next_event_ = INT64_MIN;
}

bool Gossip::Has(NodeId node, uint64_t changes) const {
  const PeerState* peer = Find(node);
  return peer != nullptr && peer->incarnation != 0 && seen_ >= changes && peer->pending_count == 0;
}

// ---- Receiving. -------------------------------------------------------------

DropReason Gossip::Receive(NodeId from, std::span<const std::byte> frame, int64_t now) {
  const DropReason drop = Take(from, frame, now);
  stats_.drops.Add(drop);
  return drop;
}

DropReason Gossip::Take(NodeId from, std::span<const std::byte> frame, int64_t now) {
  GossipHead head;
  std::span<const std::byte> part;
  const DropReason drop = DecodeGossip(frame, &head, &part);
  if (drop != DropReason::kNone) return drop;
  if (head.run != config_.run) return DropReason::kRun;
  if (head.destination != config_.node) return DropReason::kDestination;
  PeerState* peer = Find(from);
  if (peer == nullptr || head.source != from || peer->incarnation == 0 ||
      head.incarnation != peer->incarnation) {
    return DropReason::kIncarnation;
  }
  if (head.origin >= store_.nodes()) return DropReason::kStranger;
  if (head.kind == GossipKind::kAck) {
    TakeAck(peer, head, now);
    return DropReason::kNone;
  }
  if (head.origin == store_.node()) return DropReason::kSelf;
  TakeFragment(peer, head, part);
  return DropReason::kNone;
}

void Gossip::TakeFragment(PeerState* peer, const GossipHead& head,
                          std::span<const std::byte> part) {
  const size_t entry = GossipStore::EntryOf(head.origin, head.key);
  if (head.version > store_.Newest(entry)) {
    const bool whole = part.size() == head.total;
    const auto bytes = whole ? part : Assemble(entry, head, part);
    if (bytes.size() < head.total) return;
    store_.Take(entry, head.version, bytes, link_);
  }
  if (!peer->ack_due[entry]) ++peer->acks;
  peer->ack_due[entry] = true;
  next_event_ = INT64_MIN;
}

std::span<const std::byte> Gossip::Assemble(size_t entry, const GossipHead& head,
                                            std::span<const std::byte> part) {
  Assembly& assembly = assemblies_[entry];
  const bool other = assembly.version != head.version || assembly.total != head.total;
  if (other && head.version < assembly.version) return {};
  if (other) {
    assembly = {};
    assembly.version = head.version;
    assembly.total = head.total;
  }
  std::byte* bytes = assembled_.data() + entry * kMaxGossipBytes;
  std::copy(part.begin(), part.end(), bytes + head.offset);
  const size_t end = head.offset + part.size();
  for (size_t at = head.offset; at < end; at += kGossipFragmentUnit) {
    const size_t unit = at / kGossipFragmentUnit;
    const uint64_t bit = uint64_t{1} << unit % 64;
    assembly.count += (assembly.units[unit / 64] & bit) == 0;
    assembly.units[unit / 64] |= bit;
  }
  const size_t all = (head.total + kGossipFragmentUnit - 1) / kGossipFragmentUnit;
  return {bytes, assembly.count == all ? head.total : 0u};
}

void Gossip::TakeAck(PeerState* peer, const GossipHead& head, int64_t now) {
  const size_t entry = GossipStore::EntryOf(head.origin, head.key);
  if (head.version < store_.Newest(entry)) return;
  if (!peer->pending[entry]) return;
  SetPending(peer, entry, false, now);
  // The peer responds, so the rest need not wait.
  if (Slow(*peer)) peer->next_round = now;
  peer->interval = config_.first_ns;
  next_event_ = INT64_MIN;
}

// ---- Sending. ---------------------------------------------------------------

// Marks as pending what was published here or received over other segments.
void Gossip::Refresh(int64_t now) {
  if (store_.changes() == seen_) return;
  next_event_ = INT64_MIN;
  seen_ = store_.Changed(seen_, [&](size_t entry, const GossipStore::Entry& is) {
    ours_to_send_[entry] = is.version.number > 0 && is.via != link_;
    for (PeerState& peer : peers_) {
      SetPending(&peer, entry, ours_to_send_[entry], now);
      // The offset may belong to a version that was replaced.
      if (peer.entry == entry) peer.offset = 0;
    }
  });
}

void Gossip::SetPending(PeerState* peer, size_t entry, bool pending, int64_t now) {
  if (pending) {
    // A peer that acknowledges nothing keeps its long interval.
    if (peer->pending_count == 0) peer->interval = config_.first_ns;
    if (!Slow(*peer)) peer->next_round = std::min(peer->next_round, now);
  }
  if (peer->pending[entry] == pending) return;
  peer->pending[entry] = pending;
  peer->pending_count += pending ? 1 : -1;
}

int64_t Gossip::DueAt(const PeerState& peer) const {
  if (peer.incarnation == 0) return INT64_MAX;
  if (peer.acks > 0) return INT64_MIN;
  return peer.pending_count > 0 ? peer.next_round : INT64_MAX;
}

size_t Gossip::Send(std::span<OutGossip> room, int64_t now) {
  Refresh(now);
  if (now < next_event_ || room.empty()) return 0;
  size_t count = 0, turn = 0;
  for (; turn < peers_.size(); ++turn) {
    PeerState& peer = peers_[(first_ + turn) % peers_.size()];
    if (DueAt(peer) > now) continue;
    count += SendAcks(&peer, room.subspan(count));
    if (peer.pending_count > 0 && peer.next_round <= now) {
      count += SendFragments(&peer, room.subspan(count), now);
    }
    if (count == room.size()) break;
  }
  if (!peers_.empty()) first_ = (first_ + turn) % peers_.size();
  next_event_ = INT64_MAX;
  for (const PeerState& peer : peers_) next_event_ = std::min(next_event_, DueAt(peer));
  return count;
}

void Gossip::NotSent(NodeId node, int64_t now) {
  PeerState* const peer = Find(node);
  if (peer == nullptr || peer->pending_count == 0) return;
  peer->interval = config_.first_ns;
  peer->next_round = now;
  next_event_ = std::min(next_event_, now);
}

size_t Gossip::SendAcks(PeerState* peer, std::span<OutGossip> room) {
  size_t count = 0;
  for (size_t entry = 0; peer->acks > 0 && count < room.size(); ++entry) {
    if (!peer->ack_due[entry]) continue;
    peer->ack_due[entry] = false;
    --peer->acks;
    OutGossip& out = room[count++];
    GossipHead head = HeadFor(*peer, entry, GossipKind::kAck);
    head.version = store_.Newest(entry);
    out.to = peer->node;
    out.fragment_bytes = 0;
    EncodeGossip(head, {}, out.head());
  }
  return count;
}

// Continues the peer's round. The round ends after the last pending entry, or after one frame if
// the peer is unresponsive.
size_t Gossip::SendFragments(PeerState* peer, std::span<OutGossip> room, int64_t now) {
  size_t count = 0;
  while (count < room.size()) {
    while (peer->entry < store_.entries() && !peer->pending[peer->entry]) {
      ++peer->entry;
      peer->offset = 0;
    }
    if (peer->entry == store_.entries()) {
      peer->entry = 0;
      if (count == 0 && Slow(*peer)) continue;
      EndRound(peer, now);
      return count;
    }
    const GossipStore::Entry is = store_.Copy(peer->entry, copy_);
    if (is.version.number == 0) {  // removed since Refresh
      SetPending(peer, peer->entry, false, now);
      if (peer->pending_count == 0) return count;
      continue;
    }
    OutGossip& out = room[count++];
    GossipHead head = HeadFor(*peer, peer->entry, GossipKind::kFragment);
    // A new version may be shorter.
    head.offset = static_cast<uint16_t>(peer->offset < is.bytes ? peer->offset : 0);
    head.version = is.version;
    head.total = static_cast<uint16_t>(is.bytes);
    out.to = peer->node;
    out.fragment_bytes = std::min(is.bytes - head.offset, fragment_bytes_);
    std::copy_n(copy_.data() + head.offset, out.fragment_bytes, out.part().data());
    EncodeGossip(head, out.part(), out.head());
    ++stats_.fragments_sent;
    peer->offset = head.offset + out.fragment_bytes;
    if (peer->offset >= is.bytes) {
      ++peer->entry;
      peer->offset = 0;
    }
    if (Slow(*peer)) {
      EndRound(peer, now);
      return count;
    }
  }
  return count;
}

void Gossip::EndRound(PeerState* peer, int64_t now) {
  peer->next_round = now + Spread(peer->interval, config_.node, stats_.fragments_sent);
  peer->interval = std::min(2 * peer->interval, config_.slow_ns);
}

GossipHead Gossip::HeadFor(const PeerState& peer, size_t entry, GossipKind kind) const {
  GossipHead head;
  head.kind = kind;
  head.key = GossipStore::KeyOf(entry);
  head.run = config_.run;
  head.source = config_.node;
  head.destination = peer.node;
  head.incarnation = incarnation_;
  head.origin = GossipStore::NodeOf(entry);
  return head;
}

}  // namespace millrace::inline segment
