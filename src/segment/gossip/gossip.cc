#include "segment/gossip/gossip.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/jitter.h"

namespace millrace {
namespace {

size_t PartBytes(const BulletinsConfig& config) {
  if (config.max_frame_bytes < kBulletinHeadBytes + kBulletinGrain) {
    throw Error("frames of ", config.max_frame_bytes, " bytes: expected at least ",
                kBulletinHeadBytes + kBulletinGrain, " for bulletins");
  }
  const size_t room = config.max_frame_bytes - kBulletinHeadBytes;
  return std::min(room / kBulletinGrain * kBulletinGrain, kMaxBulletinBytes);
}

}  // namespace

Bulletins::Bulletins(const BulletinsConfig& config, BulletinStore* store)
    : config_(config),
      incarnation_(config.incarnation),
      part_bytes_(PartBytes(config)),
      store_(*store),
      link_(store->AddLink()),
      ours_to_send_(store->entries()),
      assemblies_(store->entries()),
      assembled_(store->entries() * kMaxBulletinBytes) {
  for (NodeId node : config.peers) {
    PeerState& peer = peers_.emplace_back();
    peer.node = node;
    peer.lacks.resize(store->entries());
    peer.owed.resize(store->entries());
    peer.interval = config.first_ns;
  }
}

const Bulletins::PeerState* Bulletins::Find(NodeId node) const {
  for (const PeerState& peer : peers_) {
    if (peer.node == node) return &peer;
  }
  return nullptr;
}

Bulletins::PeerState* Bulletins::Find(NodeId node) {
  return const_cast<PeerState*>(std::as_const(*this).Find(node));
}

void Bulletins::RaiseIncarnation(uint32_t incarnation) {
  incarnation_ = incarnation;
  store_.RaiseIncarnation(incarnation);
}

void Bulletins::Admit(NodeId node, uint32_t incarnation) {
  PeerState* peer = Find(node);
  if (peer == nullptr || peer->incarnation == incarnation) return;
  peer->incarnation = incarnation;
  peer->interval = config_.first_ns;
  peer->next_round = INT64_MIN;
  peer->entry = peer->offset = 0;
  std::fill(peer->owed.begin(), peer->owed.end(), false);
  peer->receipts = 0;
  peer->lacks = ours_to_send_;
  peer->lacking = static_cast<size_t>(std::count(peer->lacks.begin(), peer->lacks.end(), true));
  next_event_ = INT64_MIN;
}

bool Bulletins::Has(NodeId node, uint64_t changes) const {
  const PeerState* peer = Find(node);
  return peer != nullptr && peer->incarnation != 0 && seen_ >= changes && peer->lacking == 0;
}

// ---- What comes in. ---------------------------------------------------------

BulletinDrop Bulletins::Receive(NodeId from, std::span<const std::byte> frame, int64_t now) {
  const BulletinDrop drop = Take(from, frame, now);
  ++stats_.drops[static_cast<size_t>(drop)];
  return drop;
}

BulletinDrop Bulletins::Take(NodeId from, std::span<const std::byte> frame, int64_t now) {
  BulletinHead head;
  std::span<const std::byte> part;
  const BulletinDrop drop = DecodeBulletin(frame, &head, &part);
  if (drop != BulletinDrop::kNone) return drop;
  if (head.run != config_.run) return BulletinDrop::kRun;
  if (head.destination != config_.node) return BulletinDrop::kDestination;
  PeerState* peer = Find(from);
  if (peer == nullptr || head.source != from || peer->incarnation == 0 ||
      head.incarnation != peer->incarnation) {
    return BulletinDrop::kLife;
  }
  if (head.origin >= store_.nodes()) return BulletinDrop::kStranger;
  if (head.kind == BulletinKind::kReceipt) {
    ++stats_.receipts_received;
    TakeReceipt(peer, head, now);
    return BulletinDrop::kNone;
  }
  if (head.origin == store_.node()) return BulletinDrop::kSelf;
  ++stats_.parts_received;
  TakePart(peer, head, part);
  return BulletinDrop::kNone;
}

void Bulletins::TakePart(PeerState* peer, const BulletinHead& head,
                         std::span<const std::byte> part) {
  const size_t entry = BulletinStore::EntryOf(head.origin, head.topic);
  if (head.edition > store_.Newest(entry)) {
    const bool whole = part.size() == head.total;
    const auto bytes = whole ? part : Assemble(entry, head, part);
    if (bytes.size() < head.total) return;
    if (store_.Take(entry, head.edition, bytes, link_)) ++stats_.taken;
  }
  if (!peer->owed[entry]) ++peer->receipts;
  peer->owed[entry] = true;
  next_event_ = INT64_MIN;
}

std::span<const std::byte> Bulletins::Assemble(size_t entry, const BulletinHead& head,
                                               std::span<const std::byte> part) {
  Assembly& assembly = assemblies_[entry];
  const bool other = assembly.edition != head.edition || assembly.total != head.total;
  if (other && head.edition < assembly.edition) return {};
  if (other) {
    assembly = {};
    assembly.edition = head.edition;
    assembly.total = head.total;
  }
  std::byte* bytes = assembled_.data() + entry * kMaxBulletinBytes;
  std::copy(part.begin(), part.end(), bytes + head.offset);
  const size_t end = head.offset + part.size();
  for (size_t at = head.offset; at < end; at += kBulletinGrain) {
    const size_t grain = at / kBulletinGrain;
    const uint64_t bit = uint64_t{1} << grain % 64;
    assembly.count += (assembly.grains[grain / 64] & bit) == 0;
    assembly.grains[grain / 64] |= bit;
  }
  const size_t all = (head.total + kBulletinGrain - 1) / kBulletinGrain;
  return {bytes, assembly.count == all ? head.total : 0u};
}

void Bulletins::TakeReceipt(PeerState* peer, const BulletinHead& head, int64_t now) {
  const size_t entry = BulletinStore::EntryOf(head.origin, head.topic);
  if (head.edition < store_.Newest(entry)) return;
  if (!peer->lacks[entry]) return;
  SetLacks(peer, entry, false, now);
  // It listens, so the rest need not be held back.
  if (Slow(*peer)) peer->next_round = now;
  peer->interval = config_.first_ns;
  next_event_ = INT64_MIN;
}

// ---- What goes out. ---------------------------------------------------------

// What was published here, and what other segments have brought.
void Bulletins::Refresh(int64_t now) {
  if (store_.changes() == seen_) return;
  next_event_ = INT64_MIN;
  seen_ = store_.Changed(seen_, [&](size_t entry, const BulletinStore::Entry& is) {
    ours_to_send_[entry] = is.edition.version > 0 && is.via != link_;
    for (PeerState& peer : peers_) {
      SetLacks(&peer, entry, ours_to_send_[entry], now);
      // The part that a round has come to may be of an edition that is gone.
      if (peer.entry == entry) peer.offset = 0;
    }
  });
}

void Bulletins::SetLacks(PeerState* peer, size_t entry, bool lacks, int64_t now) {
  if (lacks) {
    // A peer that leaves everything unanswered is not hurried.
    if (peer->lacking == 0) peer->interval = config_.first_ns;
    if (!Slow(*peer)) peer->next_round = std::min(peer->next_round, now);
  }
  if (peer->lacks[entry] == lacks) return;
  peer->lacks[entry] = lacks;
  peer->lacking += lacks ? 1 : -1;
}

int64_t Bulletins::DueAt(const PeerState& peer) const {
  if (peer.incarnation == 0) return INT64_MAX;
  if (peer.receipts > 0) return INT64_MIN;
  return peer.lacking > 0 ? peer.next_round : INT64_MAX;
}

size_t Bulletins::Send(std::span<OutBulletin> room, int64_t now) {
  Refresh(now);
  if (now < next_event_ || room.empty()) return 0;
  size_t count = 0, turn = 0;
  for (; turn < peers_.size(); ++turn) {
    PeerState& peer = peers_[(first_ + turn) % peers_.size()];
    if (DueAt(peer) > now) continue;
    count += SendReceipts(&peer, room.subspan(count));
    if (peer.lacking > 0 && peer.next_round <= now) {
      count += SendParts(&peer, room.subspan(count), now);
    }
    if (count == room.size()) break;
  }
  if (!peers_.empty()) first_ = (first_ + turn) % peers_.size();
  next_event_ = INT64_MAX;
  for (const PeerState& peer : peers_) next_event_ = std::min(next_event_, DueAt(peer));
  return count;
}

void Bulletins::NotSent(NodeId node, int64_t now) {
  PeerState* const peer = Find(node);
  if (peer == nullptr || peer->lacking == 0) return;
  peer->interval = config_.first_ns;
  peer->next_round = now;
  next_event_ = std::min(next_event_, now);
}

size_t Bulletins::SendReceipts(PeerState* peer, std::span<OutBulletin> room) {
  size_t count = 0;
  for (size_t entry = 0; peer->receipts > 0 && count < room.size(); ++entry) {
    if (!peer->owed[entry]) continue;
    peer->owed[entry] = false;
    --peer->receipts;
    OutBulletin& out = room[count++];
    BulletinHead head = HeadFor(*peer, entry, BulletinKind::kReceipt);
    head.edition = store_.Newest(entry);
    out.to = peer->node;
    out.part_bytes = 0;
    EncodeBulletin(head, {}, out.head());
    ++stats_.receipts_sent;
  }
  return count;
}

// Goes on with the peer's round, and ends it where it was all or there is nobody to hear.
size_t Bulletins::SendParts(PeerState* peer, std::span<OutBulletin> room, int64_t now) {
  size_t count = 0;
  while (count < room.size()) {
    while (peer->entry < store_.entries() && !peer->lacks[peer->entry]) {
      ++peer->entry;
      peer->offset = 0;
    }
    if (peer->entry == store_.entries()) {
      peer->entry = 0;
      if (count == 0 && Slow(*peer)) continue;
      EndRound(peer, now);
      return count;
    }
    const BulletinStore::Entry is = store_.Copy(peer->entry, copy_);
    if (is.edition.version == 0) {  // gone since the last look at the changes
      SetLacks(peer, peer->entry, false, now);
      if (peer->lacking == 0) return count;
      continue;
    }
    OutBulletin& out = room[count++];
    BulletinHead head = HeadFor(*peer, peer->entry, BulletinKind::kPart);
    // It may have become shorter.
    head.offset = static_cast<uint16_t>(peer->offset < is.bytes ? peer->offset : 0);
    head.edition = is.edition;
    head.total = static_cast<uint16_t>(is.bytes);
    out.to = peer->node;
    out.part_bytes = std::min(is.bytes - head.offset, part_bytes_);
    std::copy_n(copy_.data() + head.offset, out.part_bytes, out.part().data());
    EncodeBulletin(head, out.part(), out.head());
    ++stats_.parts_sent;
    peer->offset = head.offset + out.part_bytes;
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

void Bulletins::EndRound(PeerState* peer, int64_t now) {
  peer->next_round = now + Spread(peer->interval, config_.node, stats_.parts_sent);
  peer->interval = std::min(2 * peer->interval, config_.slow_ns);
}

BulletinHead Bulletins::HeadFor(const PeerState& peer, size_t entry, BulletinKind kind) const {
  BulletinHead head;
  head.kind = kind;
  head.topic = BulletinStore::TopicOf(entry);
  head.run = config_.run;
  head.source = config_.node;
  head.destination = peer.node;
  head.incarnation = incarnation_;
  head.origin = BulletinStore::NodeOf(entry);
  return head;
}

}  // namespace millrace
