// Sending: frames into windows and batches.
#include <algorithm>

#include "transport/windowed_endpoint.h"

namespace millrace {

SendResult WindowedEndpoint::Send(std::span<const OutFrame> frames) {
  SendResult result;
  size_t taken = 0;  // frames accepted or in the batch
  bool busy = !SendHeld();
  while (!busy && taken < frames.size()) {
    const OutFrame& frame = frames[taken];
    const bool alone = IsFannedOut(frame) || !CanEverSend(frame);
    Taken how = alone || batch_size_ == batch_.size() ? Taken::kBusy : TakeOne(frame);
    if (how != Taken::kBatched) {
      // Frames are accepted in order, so what is in the batch goes first.
      result.accepted += FlushBatch();
      if ((busy = result.accepted < taken)) break;
    }
    if (alone) {
      result.status = Check(frame);
      if (result.status != SendStatus::kAccepted) break;
      how = TakeFannedOut(frame);
    } else if (how == Taken::kBusy) {
      how = TakeOne(frame);
    }
    if ((busy = how == Taken::kBusy)) break;
    if (how == Taken::kDone) ++result.accepted;
    ++taken;
  }
  result.accepted += FlushBatch();
  if (busy || result.accepted < taken) {
    result.status = SendStatus::kBusy;
    counters_.Busy();
  }
  return result;
}

bool WindowedEndpoint::CanEverSend(const OutFrame& frame) const {
  return frame.bytes() <= info_.max_frame_bytes && (frame.to == kAllNodes || HasPeer(frame.to));
}

WindowedEndpoint::Taken WindowedEndpoint::TakeOne(const OutFrame& frame) {
  return frame.to == kAllNodes ? TakeMulticast(frame) : TakeUnicast(frame);
}

WindowedEndpoint::Taken WindowedEndpoint::TakeUnicast(const OutFrame& frame) {
  const StreamName name = {by_node_[frame.to], false};
  if (At(name).send.silent()) {
    if (batch_size_ > 0) return Taken::kBusy;  // until those before it are sent
    Accept(frame, 0);
    DropToSilent(name);
    return Taken::kDone;
  }
  if (!HasRoom(name)) return Taken::kBusy;
  AddToBatch(name.peer, frame);
  return Taken::kBatched;
}

// Waits for all peers that are there; those that are silent may hear it too.
WindowedEndpoint::Taken WindowedEndpoint::TakeMulticast(const OutFrame& frame) {
  bool wanted = false;
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    const StreamName name = {peer, true};
    if (At(name).send.silent()) continue;
    if (!HasRoom(name)) return Taken::kBusy;
    wanted = true;
  }
  if (wanted) {
    AddToBatch(DatagramLink::kAllPeers, frame);
    return Taken::kBatched;
  }
  if (batch_size_ > 0) return Taken::kBusy;
  Accept(frame, 0);
  DropToAllSilent();
  return Taken::kDone;
}

bool WindowedEndpoint::HasRoom(StreamName name) {
  SendWindow& window = At(name).send;
  while (window.Room() == 0) {
    if (Pump()) continue;
    if (window.Refuse()) SendProbe(name);
    return false;
  }
  window.ClearRefused();
  return true;
}

void WindowedEndpoint::AddToBatch(size_t peer, const OutFrame& frame) {
  const bool to_all = peer == DatagramLink::kAllPeers;
  uint32_t number = 0;
  if (to_all) {
    // The same for all of them.
    for (Peer& each : peers_) number = each.stream(true).send.Take();
  } else {
    number = peers_[peer].stream(false).send.Take();
  }
  link_->Add(peer, SessionOf(to_all), number, frame);
  batch_[batch_size_++] = peer;
}

void WindowedEndpoint::GiveBackNumber(size_t peer) {
  if (peer != DatagramLink::kAllPeers) {
    peers_[peer].stream(false).send.GiveBack(1);
    return;
  }
  for (Peer& each : peers_) each.stream(true).send.GiveBack(1);
}

DatagramLink::Flushed WindowedEndpoint::Flush() {
  const DatagramLink::Flushed flushed = link_->Flush();
  for (size_t i = flushed.frames; i < batch_size_; ++i) GiveBackNumber(batch_[i]);
  batch_size_ = 0;
  transmitted_ += flushed.frames;
  kernel_full_ = flushed.busy;
  device_full_ = flushed.of_device;
  if (flushed.failed) counters_.Drop(DropReason::kFailed, flushed.failed);
  return flushed;
}

size_t WindowedEndpoint::FlushBatch() {
  if (batch_size_ == 0) return 0;
  const uint64_t before = transmitted_;
  const DatagramLink::Flushed flushed = Flush();
  counters_.Sent(flushed.frames, flushed.bytes, flushed.frames + flushed.copies);
  for (size_t i = 0; i < flushed.frames; ++i) {
    if (!info_.copies) reclaim_.Accept(before + i + 1);
    if (batch_[i] == DatagramLink::kAllPeers) DropToAllSilent();
  }
  return flushed.frames;
}

void WindowedEndpoint::Accept(const OutFrame& frame, uint64_t transmissions) {
  counters_.Sent(1, frame.bytes(), transmissions);
  if (!info_.copies) reclaim_.Accept(transmitted_);
}

void WindowedEndpoint::DropToSilent(StreamName name) {
  counters_.Drop(DropReason::kUnreachable);
  if (!At(name).send.Dropped()) return;
  // For a caller that does nothing but send: the answer to the last probe.
  while (Pump()) {
  }
  if (At(name).send.silent()) SendProbe(name);
}

void WindowedEndpoint::DropToAllSilent() {
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    const StreamName name = {peer, info_.multicast};
    if (At(name).send.silent()) DropToSilent(name);
  }
}

// All peers that are there get it or none does.
WindowedEndpoint::Taken WindowedEndpoint::TakeFannedOut(const OutFrame& frame) {
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    const StreamName name = {peer, false};
    if (!At(name).send.silent() && !HasRoom(name)) return Taken::kBusy;
  }
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (!peers_[peer].stream(false).send.silent()) held_to_.push_back(peer);
  }
  const size_t wanted = held_to_.size();
  SendToHeld(frame);
  if (wanted > 0 && held_to_.size() == wanted) {
    held_to_.clear();
    return Taken::kBusy;
  }
  DropToAllSilent();
  Accept(frame, 0);
  if (!held_to_.empty()) Hold(frame);
  return Taken::kDone;
}

void WindowedEndpoint::Hold(const OutFrame& frame) {
  frame.CopyTo(held_.data());
  held_bytes_ = frame.bytes();
}

void WindowedEndpoint::SendToHeld(const OutFrame& frame) {
  size_t done = 0;
  bool busy = false;
  while (!busy && done < held_to_.size()) {
    for (size_t i = done; i < held_to_.size() && batch_size_ < batch_.size(); ++i) {
      AddToBatch(held_to_[i], frame);
    }
    const DatagramLink::Flushed flushed = Flush();
    counters_.Sent(0, 0, flushed.frames);
    done += flushed.frames;
    busy = flushed.busy;
  }
  held_to_.erase(held_to_.begin(), held_to_.begin() + static_cast<ptrdiff_t>(done));
}

bool WindowedEndpoint::SendHeld() {
  if (held_to_.empty()) return true;
  SendToHeld({kAllNodes, {held_.data(), held_bytes_}, {}});
  return held_to_.empty();
}

}  // namespace millrace
