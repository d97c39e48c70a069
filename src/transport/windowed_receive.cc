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
    const StreamName name = {entry.peer, entry.to_all};
    ReceiveWindow& window = At(name).receive;
    window.Released();
    if (window.CreditDue()) WantCredit(name);
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
  const StreamName name = {datagram.peer, datagram.to_all};
  std::array<bool, 2> was_silent;
  for (size_t i = 0; i < 2; ++i) was_silent[i] = peer.streams[i].send.Heard();
  bool kept = false;
  switch (datagram.kind) {
    case DatagramKind::kFrame:
      kept = TakeFrame(datagram);
      break;
    case DatagramKind::kCredit:
      for (const bool to_all : {false, true}) {
        if (datagram.stream != SessionOf(to_all)) continue;
        peer.stream(to_all).send.Credit(datagram.sequence, datagram.window);
        was_silent[to_all ? 1 : 0] = false;  // says what a probe would ask
      }
      break;
    case DatagramKind::kProbe:
      At(name).receive.Probed(datagram.session, datagram.sequence);
      WantCredit(name);
      break;
  }
  // How far it is with what was sent before it fell silent is not known.
  for (const bool to_all : {false, true}) {
    if (was_silent[to_all ? 1 : 0]) SendProbe({datagram.peer, to_all});
  }
  return kept;
}

bool WindowedEndpoint::TakeFrame(const Datagram& datagram) {
  if (inbox_.full()) {
    counters_.Drop(DropReason::kOverrun);
    return false;
  }
  const StreamName name = {datagram.peer, datagram.to_all};
  ReceiveWindow& window = At(name).receive;
  window.Arrived(datagram.session, datagram.sequence);
  inbox_.Put({datagram.bytes, datagram.position, datagram.peer, datagram.to_all});
  // Others may have been lost before it.
  if (window.CreditDue()) WantCredit(name);
  return true;
}

void WindowedEndpoint::Reached(size_t peer) {
  for (const bool to_all : {false, true}) {
    Stream& stream = peers_[peer].stream(to_all);
    stream.send.SetReached(true);
    // It is not known to be there, but it is worth asking.
    if (stream.send.silent()) SendProbe({peer, to_all});
  }
}

void WindowedEndpoint::WantCredit(StreamName name) {
  if (At(name).credit_wanted) return;
  At(name).credit_wanted = true;
  credits_wanted_.push_back(name);
}

void WindowedEndpoint::SendCredits() {
  while (!credits_wanted_.empty()) {
    const StreamName name = credits_wanted_.back();
    Stream& stream = At(name);
    const ReceiveWindow& window = stream.receive;
    // Tried again in a later call; a peer that waits for it will also ask.
    if (!link_->SendCredit(name.peer, session_, window.freed(), window.session(),
                           window.window())) {
      return;
    }
    stream.receive.Announced();
    stream.credit_wanted = false;
    credits_wanted_.pop_back();
  }
}

void WindowedEndpoint::SendProbe(StreamName name) {
  // One that finds no room is as one that is lost.
  link_->SendProbe(name.peer, SessionOf(name.to_all), At(name).send.sent(), name.to_all);
}

}  // namespace millrace
