// Receiving: datagrams into frames, credits and answers to probes.
#include "transport/windowed_endpoint.h"

namespace millrace {

size_t WindowedEndpoint::Receive(std::span<InFrame> frames) {
  if (!held_to_.empty()) SendHeld();
  size_t count = 0;
  uint64_t bytes = 0;
  while (count < frames.size()) {
    if (!inbox_.waiting()) {
      if (!Pump()) break;
      continue;
    }
    const Inbox::Entry& entry = inbox_.Take();
    frames[count++] = {peers_[entry.peer].node, entry.bytes};
    bytes += entry.bytes.size();
  }
  if (count) counters_.Received(count, bytes);
  return count;
}

void WindowedEndpoint::Release() {
  inbox_.Release([this](const Inbox::Entry& entry) {
    ReceiveWindow& window = peers_[entry.peer].receive;
    window.Released();
    if (window.CreditDue()) WantCredit(entry.peer);
  });
  link_->GiveBack(inbox_.waiting() ? inbox_.Next().position : link_->head());
  SendCredits();
}

bool WindowedEndpoint::Pump() {
  const bool read = link_->Read(this);
  SendCredits();
  return read;
}

bool WindowedEndpoint::Take(const Datagram& datagram) {
  Peer& peer = peers_[datagram.peer];
  const bool was_silent = peer.send.Heard();
  bool kept = false;
  switch (datagram.kind) {
    case DatagramKind::kFrame:
      kept = TakeFrame(datagram);
      break;
    case DatagramKind::kCredit:
      if (datagram.stream == session_) peer.send.Credit(datagram.sequence, datagram.window);
      return false;  // says what a probe would ask
    case DatagramKind::kProbe:
      peer.receive.Probed(datagram.session, datagram.sequence);
      WantCredit(datagram.peer);
      break;
  }
  // How far it is with what was sent before it fell silent is not known.
  if (was_silent) SendProbe(datagram.peer);
  return kept;
}

bool WindowedEndpoint::TakeFrame(const Datagram& datagram) {
  if (inbox_.full()) {
    counters_.Drop(DropReason::kOverrun);
    return false;
  }
  ReceiveWindow& window = peers_[datagram.peer].receive;
  window.Arrived(datagram.session, datagram.sequence);
  inbox_.Put({datagram.bytes, datagram.position, datagram.peer});
  // Others may have been lost before it.
  if (window.CreditDue()) WantCredit(datagram.peer);
  return true;
}

void WindowedEndpoint::WantCredit(size_t index) {
  if (peers_[index].credit_wanted) return;
  peers_[index].credit_wanted = true;
  credits_wanted_.push_back(index);
}

void WindowedEndpoint::SendCredits() {
  while (!credits_wanted_.empty()) {
    const size_t index = credits_wanted_.back();
    Peer& peer = peers_[index];
    const ReceiveWindow& window = peer.receive;
    // Tried again in a later call; a peer that waits for it will also ask.
    if (!link_->SendCredit(index, session_, window.freed(), window.session(), window.window())) {
      return;
    }
    peer.receive.Announced();
    peer.credit_wanted = false;
    credits_wanted_.pop_back();
  }
}

void WindowedEndpoint::SendProbe(size_t index) {
  // One that finds no room is as one that is lost.
  link_->SendProbe(index, session_, peers_[index].send.sent());
}

}  // namespace millrace
