// Receiving: datagrams into frames, credits and answers to probes.
#include <algorithm>
#include <cstring>

#include "transport/udp_endpoint.h"

namespace millrace {

size_t UdpEndpoint::Receive(std::span<InFrame> frames) {
  if (!held_to_.empty()) SendHeld();
  size_t count = 0;
  uint64_t bytes = 0;
  while (count < frames.size()) {
    if (!inbox_.waiting()) {
      if (!Pump()) break;
      continue;
    }
    const UdpInbox::Entry& entry = inbox_.Take();
    frames[count++] = {peers_[entry.peer].node, entry.bytes};
    bytes += entry.bytes.size();
  }
  if (count) counters_.Received(count, bytes);
  return count;
}

void UdpEndpoint::Release() {
  inbox_.Release([this](const UdpInbox::Entry& entry) {
    UdpReceiveWindow& window = peers_[entry.peer].receive;
    window.Released();
    if (window.CreditDue()) WantCredit(entry.peer);
  });
  receiver_.GiveBack(inbox_.waiting() ? inbox_.Next().position : receiver_.head());
  SendCredits();
}

bool UdpEndpoint::Pump() {
  const auto arrivals = receiver_.Read();
  for (const UdpArrival& arrival : arrivals) TakeArrival(arrival);
  if (const uint64_t overruns = receiver_.TakeOverruns()) {
    counters_.Drop(DropReason::kOverrun, overruns);
  }
  SendCredits();
  return !arrivals.empty();
}

void UdpEndpoint::TakeArrival(const UdpArrival& arrival) {
  const size_t segment = arrival.segment_bytes;
  const size_t datagrams =
      arrival.bytes.empty() ? 1 : (arrival.bytes.size() + segment - 1) / segment;
  if (!(*arrival.from == peers_[last_peer_].address)) {
    const size_t peer = peers_.Find(*arrival.from);
    if (peer == UdpPeers::kNone) {
      counters_.Drop(DropReason::kUnknownSender, datagrams);
      return;
    }
    last_peer_ = peer;
  }
  if (arrival.truncated || arrival.bytes.empty()) {
    counters_.Drop(DropReason::kMalformed);
    return;
  }
  // A peer's datagrams are multiples of 8 bytes, and so each begins on one.
  for (size_t at = 0; at < arrival.bytes.size(); at += segment) {
    const auto rest = arrival.bytes.subspan(at);
    TakeDatagram(last_peer_, rest.first(std::min(segment, rest.size())), arrival.position);
  }
}

void UdpEndpoint::TakeDatagram(size_t index, std::span<const std::byte> datagram,
                               uint64_t position) {
  UdpPrefix prefix;
  if (!ParseUdpPrefix(datagram, &prefix)) {
    counters_.Drop(DropReason::kMalformed);
    return;
  }
  UdpPeer& peer = peers_[index];
  const bool was_silent = peer.send.Heard();
  switch (prefix.kind()) {
    case UdpKind::kFrame: {
      if (inbox_.full()) {
        counters_.Drop(DropReason::kOverrun);
        break;
      }
      const size_t bytes = datagram.size() - kUdpPrefixBytes - prefix.pad();
      peer.receive.Arrived(prefix.session, prefix.sequence);
      inbox_.Put({datagram.subspan(kUdpPrefixBytes, bytes), position, index});
      receiver_.Keep(position);
      // Others may have been lost before it.
      if (peer.receive.CreditDue()) WantCredit(index);
      break;
    }
    case UdpKind::kCredit:
      TakeCredit(&peer, datagram);
      return;  // says what a probe would ask
    case UdpKind::kProbe:
      peer.receive.Probed(prefix.session, prefix.sequence);
      WantCredit(index);
      break;
  }
  // How far it is with what was sent before it fell silent is not known.
  if (was_silent) SendProbe(index);
}

void UdpEndpoint::TakeCredit(UdpPeer* peer, std::span<const std::byte> datagram) {
  UdpCredit credit;
  std::memcpy(&credit, datagram.data(), sizeof(credit));
  if (credit.stream == session_) peer->send.Credit(credit.prefix.sequence, credit.window);
}

void UdpEndpoint::WantCredit(size_t index) {
  if (peers_[index].credit_wanted) return;
  peers_[index].credit_wanted = true;
  credits_wanted_.push_back(index);
}

void UdpEndpoint::SendCredits() {
  while (!credits_wanted_.empty()) {
    UdpPeer& peer = peers_[credits_wanted_.back()];
    UdpCredit credit;
    credit.prefix = MakeUdpPrefix(UdpKind::kCredit, 0, session_, peer.receive.freed());
    credit.stream = peer.receive.session();
    credit.window = peer.receive.window();
    // Tried again in a later call; a peer that waits for it will also ask.
    if (!batch_.SendNow(peer.address, std::as_bytes(std::span(&credit, 1)))) return;
    peer.receive.Announced();
    peer.credit_wanted = false;
    credits_wanted_.pop_back();
  }
}

void UdpEndpoint::SendProbe(size_t index) {
  UdpPeer& peer = peers_[index];
  const UdpPrefix probe = MakeUdpPrefix(UdpKind::kProbe, 0, session_, peer.send.sent());
  // One that finds no room is as one that is lost.
  batch_.SendNow(peer.address, std::as_bytes(std::span(&probe, 1)));
}

}  // namespace millrace
