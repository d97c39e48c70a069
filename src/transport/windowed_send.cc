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
    const bool alone = frame.to == kAllNodes || !CanEverSend(frame);
    Taken how = alone || batch_size_ == batch_.size() ? Taken::kBusy : TakeUnicast(frame);
    if (how != Taken::kBatched) {
      // Frames are accepted in order, so what is in the batch goes first.
      result.accepted += FlushBatch();
      if ((busy = result.accepted < taken)) break;
    }
    if (alone) {
      result.status = Check(frame);
      if (result.status != SendStatus::kAccepted) break;
      how = TakeMulticast(frame);
    } else if (how == Taken::kBusy) {
      how = TakeUnicast(frame);
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

WindowedEndpoint::Taken WindowedEndpoint::TakeUnicast(const OutFrame& frame) {
  const size_t peer = by_node_[frame.to];
  if (peers_[peer].send.silent()) {
    if (batch_size_ > 0) return Taken::kBusy;  // until those before it are sent
    counters_.Sent(1, frame.bytes(), 0);
    DropToSilent(peer);
    return Taken::kDone;
  }
  if (!HasRoom(peer)) return Taken::kBusy;
  AddToBatch(peer, frame);
  return Taken::kBatched;
}

bool WindowedEndpoint::HasRoom(size_t peer) {
  SendWindow& window = peers_[peer].send;
  while (window.Room() == 0) {
    if (Pump()) continue;
    if (window.Refuse()) SendProbe(peer);
    return false;
  }
  window.ClearRefused();
  return true;
}

void WindowedEndpoint::AddToBatch(size_t peer, const OutFrame& frame) {
  link_->Add(peer, session_, peers_[peer].send.Take(), frame);
  batch_[batch_size_++] = peer;
}

DatagramLink::Flushed WindowedEndpoint::Flush() {
  const DatagramLink::Flushed flushed = link_->Flush();
  for (size_t i = flushed.frames; i < batch_size_; ++i) peers_[batch_[i]].send.GiveBack(1);
  batch_size_ = 0;
  kernel_full_ = flushed.busy;
  device_full_ = flushed.of_device;
  if (flushed.failed) counters_.Drop(DropReason::kFailed, flushed.failed);
  return flushed;
}

size_t WindowedEndpoint::FlushBatch() {
  if (batch_size_ == 0) return 0;
  const DatagramLink::Flushed flushed = Flush();
  counters_.Sent(flushed.frames, flushed.bytes, flushed.frames);
  return flushed.frames;
}

void WindowedEndpoint::DropToSilent(size_t peer) {
  counters_.Drop(DropReason::kUnreachable);
  if (!peers_[peer].send.Dropped()) return;
  // For a caller that does nothing but send: the answer to the last probe.
  while (Pump()) {
  }
  if (peers_[peer].send.silent()) SendProbe(peer);
}

// All peers that are there get it or none does.
WindowedEndpoint::Taken WindowedEndpoint::TakeMulticast(const OutFrame& frame) {
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (!peers_[peer].send.silent() && !HasRoom(peer)) return Taken::kBusy;
  }
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (!peers_[peer].send.silent()) held_to_.push_back(peer);
  }
  const size_t wanted = held_to_.size();
  SendToHeld(frame);
  if (wanted > 0 && held_to_.size() == wanted) {
    held_to_.clear();
    return Taken::kBusy;
  }
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (peers_[peer].send.silent()) DropToSilent(peer);
  }
  counters_.Sent(1, frame.bytes(), 0);
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
