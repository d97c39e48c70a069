// CreditedEndpoint: receiving of frames, credits and probes.
#include <algorithm>
#include <utility>

#include "transport/credited_endpoint.h"

namespace millrace::inline transport {

size_t CreditedEndpoint::Receive(std::span<InFrame> frames) {
  SendHeld();
  size_t count = 0;
  uint64_t bytes = 0;
  for (int looks = 0; count < frames.size();) {
    if (!receive_queue_.waiting()) {
      if (++looks > kMaxLooks || !Poll()) break;
      continue;
    }
    const ReceiveQueue::Entry& entry = receive_queue_.Take();
    frames[count++] = {peers_[entry.peer].node, entry.bytes};
    bytes += entry.bytes.size();
  }
  if (count) counters_.Received(count, bytes);
  return count;
}

void CreditedEndpoint::Release() {
  receive_queue_.Release([this](const ReceiveQueue::Entry& entry) {
    const StreamName name = {entry.peer, entry.to_all};
    ReceiveWindow& window = At(name).receive;
    window.Released();
    if (window.CreditDue()) WantCredit(name);
  });
  link_->GiveBack(receive_queue_.waiting() ? receive_queue_.Next().position : link_->head());
  SendCredits();
}

bool CreditedEndpoint::Poll() {
  const bool read = link_->Read(this);
  SendCredits();
  return read;
}

bool CreditedEndpoint::Take(const Datagram& datagram) {
  switch (datagram.kind) {
    case DatagramKind::kFrame:
      return TakeFrame(datagram);
    case DatagramKind::kCredit:
      TakeCredit(datagram.peer, datagram.control);
      break;
    case DatagramKind::kProbe:
      TakeProbe({datagram.peer, datagram.to_all}, datagram.control);
      break;
  }
  return false;
}

// Ignores a credit that echoes no session id of this endpoint: it is outdated or forged.
void CreditedEndpoint::TakeCredit(size_t peer, const ControlMessage& credit) {
  const bool to_all = credit.echo == SessionOf(true);
  if (!to_all && credit.echo != SessionOf(false)) return;
  const bool is_new = std::exchange(peers_[peer].session, credit.session) != credit.session;
  SendWindow& window = peers_[peer].stream(to_all).send;
  window.Answered();
  if (credit.window > 0) window.Credit(credit.sequence, credit.window);
  Heard(peer);
  // Confirms this node's session to the receiver.
  if (credit.window == 0 || is_new) SendProbe({peer, to_all});
}

void CreditedEndpoint::TakeProbe(StreamName name, const ControlMessage& probe) {
  const bool validated = probe.echo == session_;
  if (validated) {
    peers_[name.peer].session = probe.session ^ (name.to_all ? 1 : 0);
    Heard(name.peer);
  }
  if (At(name).receive.Probed(probe.session, probe.sequence, validated)) {
    WantCredit(name);
  } else {
    // A challenge. If it is lost, the next probe triggers another.
    link_->SendCredit(name.peer, {0, session_, probe.session, 0});
  }
}

void CreditedEndpoint::Heard(size_t peer) {
  for (Stream& stream : peers_[peer].streams) stream.send.Heard();
}

bool CreditedEndpoint::TakeFrame(const Datagram& datagram) {
  if (receive_queue_.full()) {
    counters_.Drop(DropReason::kOverrun);
    return false;
  }
  const StreamName name = {datagram.peer, datagram.to_all};
  ReceiveWindow& window = At(name).receive;
  if (window.Arrived(datagram.tag, datagram.sequence)) Heard(datagram.peer);
  receive_queue_.Put({datagram.bytes, datagram.position, datagram.peer, datagram.to_all});
  // The frame may reveal that earlier ones were lost.
  if (window.CreditDue()) WantCredit(name);
  return true;
}

void CreditedEndpoint::Reached(size_t peer) {
  for (const bool to_all : {false, true}) {
    Stream& stream = peers_[peer].stream(to_all);
    stream.send.SetReached(true);
    // The peer may still be unresponsive; ask it.
    if (stream.send.unresponsive()) SendProbe({peer, to_all});
  }
}

void CreditedEndpoint::WantCredit(StreamName name) {
  if (At(name).credit_wanted) return;
  At(name).credit_wanted = true;
  credits_wanted_.push_back(name);
}

void CreditedEndpoint::SendCredits() {
  while (!credits_wanted_.empty()) {
    const StreamName name = credits_wanted_.back();
    Stream& stream = At(name);
    const ReceiveWindow& window = stream.receive;
    // On failure, a later call retries; a peer that waits for the credit also sends a probe.
    const ControlMessage credit = {window.freed(), session_, window.session(), window.window()};
    if (!link_->SendCredit(name.peer, credit)) return;
    stream.receive.Announced();
    stream.credit_wanted = false;
    credits_wanted_.pop_back();
  }
}

void CreditedEndpoint::SendProbe(StreamName name) {
  // The probe overtakes frames that are still in the batch, so it must not cover them.
  const auto batch = std::span(batch_).first(batch_size_);
  const size_t to = name.to_all ? DatagramLink::kAllPeers : name.peer;
  const auto unsent = static_cast<uint32_t>(std::count(batch.begin(), batch.end(), to));
  const ControlMessage probe = {At(name).send.sent() - unsent, SessionOf(name.to_all),
                                peers_[name.peer].session, 0};
  // A probe that finds no room counts as lost.
  link_->SendProbe(name.peer, probe, name.to_all);
}

}  // namespace millrace::inline transport
