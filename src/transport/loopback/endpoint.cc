#include "transport/loopback/endpoint.h"

namespace millrace::inline transport {
namespace {

TransportInfo InfoOf(NodeId node, const LoopbackOptions& options) {
  TransportInfo info;
  info.name = "loopback";
  info.node = node;
  for (int64_t peer = 0; peer < options.nodes; ++peer) {
    if (peer != node) info.peers.push_back(static_cast<NodeId>(peer));
  }
  info.max_frame_bytes = options.max_frame_bytes;
  info.copies = true;
  info.lossless = true;
  return info;
}

}  // namespace

LoopbackEndpoint::LoopbackEndpoint(NodeId node, std::shared_ptr<LoopbackHub::State> hub)
    : Transport(InfoOf(node, hub->options)),
      hub_(std::move(hub)),
      place_(hub_->places[node]),
      full_(hub_->places.size()),
      will_ring_(hub_->places.size()) {
  IndexPeers();
  credited_.reserve(hub_->places.size());
  to_ring_.reserve(hub_->places.size());
}

LoopbackEndpoint::~LoopbackEndpoint() {
  std::lock_guard<std::mutex> lock(hub_->connecting);
  place_.open = false;
  LoopbackHub::State::Drain(&place_);
  // Senders that wait for room here must learn that frames are dropped from now on.
  hub_->AnnounceRoom(&place_);
}

SendResult LoopbackEndpoint::Send(std::span<const OutFrame> frames) {
  SendResult result;
  Tally tally;
  while (result.accepted < frames.size()) {
    const auto rest = frames.subspan(result.accepted);
    result.status = Check(rest[0]);
    if (result.status != SendStatus::kAccepted) break;
    size_t run = 1, sent = 0;
    if (rest[0].to == kAllNodes) {
      sent = SendToAll(rest[0], &tally) ? 1 : 0;
    } else {
      run = Run(rest, info_.max_frame_bytes);
      sent = SendTo(rest[0].to, rest.first(run), &tally);
    }
    result.accepted += sent;
    if (sent < run) {
      result.status = SendStatus::kBusy;
      counters_.Busy();
      break;
    }
  }
  RingReceivers();
  counters_.Sent(result.accepted, tally.bytes, tally.transmissions);
  if (tally.unreachable) counters_.Drop(DropReason::kUnreachable, tally.unreachable);
  return result;
}

size_t LoopbackEndpoint::Run(std::span<const OutFrame> frames, size_t max_frame_bytes) {
  size_t run = 1;
  while (run < frames.size() && frames[run].to == frames[0].to &&
         frames[run].bytes() <= max_frame_bytes) {
    ++run;
  }
  return run;
}

size_t LoopbackEndpoint::SendTo(NodeId node, std::span<const OutFrame> frames, Tally* tally) {
  LoopbackPlace& to = hub_->places[node];
  size_t count = frames.size();
  if (to.open.load(std::memory_order_acquire)) {
    count = to.ring->TakeCredits(frames.size());
    SetFull(node, count < frames.size());
    if (count == 0) return 0;
    const uint64_t position = to.ring->Claim(count);
    for (size_t i = 0; i < count; ++i) to.ring->Fill(position + i, info_.node, frames[i]);
    RingLater(node);
  } else {
    SetFull(node, false);
    tally->unreachable += count;
  }
  for (size_t i = 0; i < count; ++i) tally->bytes += frames[i].bytes();
  tally->transmissions += count;
  return count;
}

bool LoopbackEndpoint::SendToAll(const OutFrame& frame, Tally* tally) {
  // Take a credit of every receiver first, so that all receive the frame or none does.
  credited_.clear();
  uint64_t unreachable = 0;
  for (NodeId peer : info_.peers) {
    LoopbackPlace& to = hub_->places[peer];
    if (!to.open.load(std::memory_order_acquire)) {
      ++unreachable;
      continue;
    }
    if (to.ring->TakeCredits(1) == 0) {
      SetFull(peer, true);
      for (NodeId other : credited_) GiveBack(other);
      return false;
    }
    credited_.push_back(peer);
  }
  for (NodeId peer : credited_) {
    SetFull(peer, false);
    FrameRing& ring = *hub_->places[peer].ring;
    ring.Fill(ring.Claim(1), info_.node, frame);
    RingLater(peer);
  }
  tally->bytes += frame.bytes();
  tally->transmissions += info_.peers.size();
  tally->unreachable += unreachable;
  return true;
}

void LoopbackEndpoint::GiveBack(NodeId node) {
  LoopbackPlace& place = hub_->places[node];
  place.ring->ReturnCredits(1);
  // Another sender may have found the queue full in the meantime.
  hub_->AnnounceRoom(&place);
}

void LoopbackEndpoint::SetFull(NodeId node, bool full) {
  if (full_[node] == full) return;
  full_[node] = full;
  full_count_ += full ? 1 : -1;
}

void LoopbackEndpoint::RingLater(NodeId node) {
  if (will_ring_[node]) return;
  will_ring_[node] = true;
  to_ring_.push_back(node);
}

void LoopbackEndpoint::RingReceivers() {
  for (NodeId node : to_ring_) {
    hub_->places[node].bell.Ring();
    will_ring_[node] = false;
  }
  to_ring_.clear();
}

size_t LoopbackEndpoint::Receive(std::span<InFrame> frames) {
  size_t count = 0;
  uint64_t bytes = 0;
  while (count < frames.size() && place_.ring->Ready()) {
    frames[count] = place_.ring->Take();
    bytes += frames[count++].bytes.size();
  }
  if (count) counters_.Received(count, bytes);
  return count;
}

void LoopbackEndpoint::Release() {
  if (place_.ring->Release()) hub_->AnnounceRoom(&place_);
}

void LoopbackEndpoint::Wake() {
  woken_.store(true, std::memory_order_seq_cst);
  place_.bell.Ring();
}

WaitResult LoopbackEndpoint::Wait(int64_t deadline_ns, WaitFor what) {
  for (;;) {
    const uint32_t rings = place_.bell.rings();
    WaitResult result;
    result.receivable = place_.ring->Ready();
    result.sendable = what == WaitFor::kReceiveOrSend && RoomAppeared();
    result.woken = woken_.exchange(false, std::memory_order_seq_cst);
    if (result.receivable || result.sendable || result.woken) return result;
    const int64_t ns = SleepNs(*hub_->options.clock, deadline_ns);
    if (ns == 0) return result;
    place_.bell.Sleep(rings, ns);
  }
}

bool LoopbackEndpoint::RoomAppeared() {
  if (full_count_ == 0) return true;
  bool room = false;
  for (NodeId peer : info_.peers) {
    if (!full_[peer]) continue;
    LoopbackPlace& place = hub_->places[peer];
    // Set before the check: a receiver that frees slots afterwards sees the request.
    place.wanted.store(true, std::memory_order_seq_cst);
    if (place.open.load(std::memory_order_seq_cst) && !place.ring->HasCredit()) continue;
    SetFull(peer, false);
    room = true;
  }
  return room;
}

}  // namespace millrace::inline transport
