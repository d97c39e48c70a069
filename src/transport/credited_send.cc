// CreditedEndpoint: sending of frames through windows and batches.
#include <algorithm>

#include "transport/credited_endpoint.h"

namespace millrace::inline transport {

SendResult CreditedEndpoint::Send(std::span<const OutFrame> frames) {
  SendResult result;
  size_t taken = 0;  // frames accepted or in the batch
  bool busy = !SendHeld();
  while (!busy && taken < frames.size()) {
    const OutFrame& frame = frames[taken];
    const bool possible = CanEverSend(frame), fanned_out = possible && IsFannedOut(frame);
    const bool batches = possible && !fanned_out && batch_size_ < batch_.size();
    Taken how = batches ? TakeOne(frame) : Taken::kBusy;
    if (how != Taken::kBatched) {
      // Frames are accepted in order, so the batch goes first.
      result.accepted += FlushBatch();
      if ((busy = result.accepted < taken)) break;
    }
    if (!possible) {
      result.status = Check(frame);
      break;
    }
    if (fanned_out) {
      const size_t run = TakeFannedOut(frames.subspan(taken));
      busy = run == 0;
      result.accepted += run;
      taken += run;
      continue;
    }
    if (how == Taken::kBusy) how = TakeOne(frame);
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

bool CreditedEndpoint::CanEverSend(const OutFrame& frame) const {
  return frame.bytes() <= info_.max_frame_bytes && (frame.to == kAllNodes || HasPeer(frame.to));
}

CreditedEndpoint::Taken CreditedEndpoint::TakeOne(const OutFrame& frame) {
  return frame.to == kAllNodes ? TakeMulticast(frame) : TakeUnicast(frame);
}

CreditedEndpoint::Taken CreditedEndpoint::TakeUnicast(const OutFrame& frame) {
  const StreamName name = {by_node_[frame.to], false};
  if (At(name).send.unresponsive()) {
    if (batch_size_ > 0) return Taken::kBusy;  // until the frames before it are sent
    Accept(frame, 0);
    DropToUnresponsive(name);
    return Taken::kDone;
  }
  if (!HasRoom(name)) return Taken::kBusy;
  AddToBatch(name.peer, frame);
  return Taken::kBatched;
}

// Requires room at all responsive peers. Unresponsive peers may receive the frame too.
CreditedEndpoint::Taken CreditedEndpoint::TakeMulticast(const OutFrame& frame) {
  bool wanted = false;
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    const StreamName name = {peer, true};
    if (At(name).send.unresponsive()) continue;
    if (!HasRoom(name)) return Taken::kBusy;
    wanted = true;
  }
  if (wanted) {
    AddToBatch(DatagramLink::kAllPeers, frame);
    return Taken::kBatched;
  }
  if (batch_size_ > 0) return Taken::kBusy;
  Accept(frame, 0);
  DropToAllUnresponsive();
  return Taken::kDone;
}

bool CreditedEndpoint::HasRoom(StreamName name) {
  SendWindow& window = At(name).send;
  for (int looks = 0; window.Room() == 0; ++looks) {
    if (looks < kMaxLooks && Poll()) continue;
    window.Refuse();
    // The caller may never wait, as a segment that finds frames to receive whenever it looks.
    if (window.ProbeDue(clock_.NowNs())) SendProbe(name);
    return false;
  }
  window.ClearRefused();
  return true;
}

void CreditedEndpoint::AddToBatch(size_t peer, const OutFrame& frame) {
  const bool to_all = peer == DatagramLink::kAllPeers;
  uint32_t number = 0;
  if (to_all) {
    // All peers use the same number.
    for (Peer& each : peers_) number = each.stream(true).send.Take();
  } else {
    number = peers_[peer].stream(false).send.Take();
  }
  if (number == 1) Begin(peer);
  link_->Add(peer, TagOf(SessionOf(to_all)), number, frame);
  batch_[batch_size_++] = peer;
}

void CreditedEndpoint::GiveBackNumber(size_t peer) {
  if (peer != DatagramLink::kAllPeers) {
    peers_[peer].stream(false).send.GiveBack(1);
    return;
  }
  for (Peer& each : peers_) each.stream(true).send.GiveBack(1);
}

DatagramLink::Flushed CreditedEndpoint::Flush() {
  const DatagramLink::Flushed flushed = link_->Flush();
  for (size_t i = flushed.frames; i < batch_size_; ++i) GiveBackNumber(batch_[i]);
  batch_size_ = 0;
  if (!begun_.empty()) ProbeBegun();
  transmitted_ += flushed.frames;
  kernel_full_ = flushed.busy;
  device_full_ = flushed.of_device;
  if (flushed.failed) counters_.Drop(DropReason::kFailed, flushed.failed);
  return flushed;
}

// A receiver sends credits only for a session that a probe has announced.
void CreditedEndpoint::Begin(size_t peer) {
  if (peer != DatagramLink::kAllPeers) {
    begun_.push_back({peer, false});
    return;
  }
  for (size_t each = 0; each < peers_.size(); ++each) begun_.push_back({each, true});
}

void CreditedEndpoint::ProbeBegun() {
  for (const StreamName name : begun_) SendProbe(name);
  begun_.clear();
}

size_t CreditedEndpoint::FlushBatch() {
  if (batch_size_ == 0) return 0;
  const uint64_t before = transmitted_;
  const DatagramLink::Flushed flushed = Flush();
  counters_.Sent(flushed.frames, flushed.bytes, flushed.frames + flushed.copies);
  for (size_t i = 0; i < flushed.frames; ++i) {
    if (!info_.copies) reclaim_.Accept(before + i + 1);
    if (batch_[i] == DatagramLink::kAllPeers) DropToAllUnresponsive();
  }
  return flushed.frames;
}

void CreditedEndpoint::Accept(const OutFrame& frame, uint64_t transmissions) {
  counters_.Sent(1, frame.bytes(), transmissions);
  if (!info_.copies) reclaim_.Accept(transmitted_);
}

void CreditedEndpoint::DropToUnresponsive(StreamName name) {
  counters_.Drop(DropReason::kUnreachable);
  if (!At(name).send.Dropped()) return;
  // Reads the answer to the last probe, for callers that only send.
  for (int looks = 0; looks < kMaxLooks && Poll(); ++looks) {
  }
  if (At(name).send.unresponsive()) SendProbe(name);
}

void CreditedEndpoint::DropToAllUnresponsive() {
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    const StreamName name = {peer, info_.multicast};
    if (At(name).send.unresponsive()) DropToUnresponsive(name);
  }
}

// Number of leading multicast frames that can be fanned out together: all responsive peers have
// room for them. 0 if a responsive peer has no room. `*live` is the number of responsive peers.
size_t CreditedEndpoint::RunLength(std::span<const OutFrame> frames, size_t* live) {
  size_t most = std::min(frames.size(), held_.size() / info_.max_frame_bytes);
  *live = 0;
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    const StreamName name = {peer, false};
    if (At(name).send.unresponsive()) continue;
    if (!HasRoom(name)) return 0;
    most = std::min<size_t>(most, At(name).send.Room());
    ++*live;
  }
  if (*live > 0) most = std::min(most, std::max<size_t>(batch_.size() / *live, 1));
  size_t run = 0;
  while (run < most && IsFannedOut(frames[run]) && CanEverSend(frames[run])) ++run;
  return run;
}

// Sends the whole run to one peer before the next, so that the link can coalesce datagrams to the
// same destination. A frame is accepted for all responsive peers or for none.
size_t CreditedEndpoint::TakeFannedOut(std::span<const OutFrame> frames) {
  size_t live = 0;
  const auto run = frames.first(RunLength(frames, &live));
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (peers_[peer].stream(false).send.unresponsive()) continue;
    for (size_t i = 0; i < run.size(); ++i) copies_.push_back({peer, i});
  }
  const size_t wanted = copies_.size();
  SendCopies(run);
  if (wanted > 0 && copies_.size() == wanted) {
    copies_.clear();
    return 0;
  }
  for (const OutFrame& frame : run) {
    DropToAllUnresponsive();
    Accept(frame, 0);
  }
  if (!copies_.empty()) Hold(run);
  return run.size();
}

void CreditedEndpoint::Hold(std::span<const OutFrame> frames) {
  held_frames_.clear();
  for (const OutFrame& frame : frames) {
    std::byte* at = held_.data() + held_frames_.size() * info_.max_frame_bytes;
    frame.CopyTo(at);
    held_frames_.push_back({kAllNodes, {at, frame.bytes()}, {}});
  }
}

void CreditedEndpoint::SendCopies(std::span<const OutFrame> frames) {
  size_t done = 0;
  bool busy = false;
  while (!busy && done < copies_.size()) {
    for (size_t i = done; i < copies_.size() && batch_size_ < batch_.size(); ++i) {
      AddToBatch(copies_[i].peer, frames[copies_[i].frame]);
    }
    const DatagramLink::Flushed flushed = Flush();
    counters_.Sent(0, 0, flushed.frames);
    done += flushed.frames;
    busy = flushed.busy;
  }
  copies_.erase(copies_.begin(), copies_.begin() + static_cast<ptrdiff_t>(done));
}

bool CreditedEndpoint::SendHeld() {
  if (!copies_.empty()) SendCopies(held_frames_);
  return copies_.empty();
}

}  // namespace millrace::inline transport
