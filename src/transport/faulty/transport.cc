#include "transport/faulty/transport.h"

#include <time.h>

#include <algorithm>

namespace millrace::inline transport {
namespace {

// Longest sleep while the inner transport may have frames for which no slot is free.
constexpr int64_t kFullSleepNs = 1'000'000;

TransportInfo InfoOf(const Transport& inner) {
  TransportInfo info = inner.info();
  info.name = "faulty";
  info.copies = true;
  info.lossless = false;
  return info;
}

const FaultPlan& Valid(const FaultPlan& plan) {
  plan.Validate();
  return plan;
}

}  // namespace

FaultyTransport::FaultyTransport(std::unique_ptr<Transport> inner, const FaultPlan& plan)
    : Transport(InfoOf(*inner)),
      plan_(Valid(plan)),
      inner_(std::move(inner)),
      // One group per peer, and one for multicasts.
      send_(plan_, Direction::kSend, info_, info_.peers.size() + 1),
      receive_(plan_, Direction::kReceive, info_, info_.peers.size()),
      cut_(PeerLimit(info_)) {
  IndexPeers();
  in_flight_.reserve(send_.FreeSlots());
  lent_.reserve(receive_.FreeSlots());
  refused_.reserve(info_.peers.size() + 1);
}

void FaultyTransport::Partition(NodeId peer, bool cut) {
  if (peer >= cut_.size() || cut_[peer].exchange(cut) == cut) return;
  cut_count_ += cut ? 1 : -1;
}

SendResult FaultyTransport::Send(std::span<const OutFrame> frames) {
  const int64_t now_ns = plan_.clock->NowNs();
  PollSend(now_ns);
  SendResult result;
  uint64_t bytes = 0, transmissions = 0;
  while (result.accepted < frames.size()) {
    const OutFrame& frame = frames[result.accepted];
    result.status = Check(frame);
    if (result.status != SendStatus::kAccepted) break;
    if (Full(frame.to)) PollSend(now_ns);
    if (Full(frame.to)) {
      result.status = SendStatus::kBusy;
      counters_.Busy();
      if (std::find(refused_.begin(), refused_.end(), frame.to) == refused_.end()) {
        refused_.push_back(frame.to);
      }
      break;
    }
    send_.Take(frame.to, frame, frame.to != kAllNodes && IsCut(frame.to), now_ns);
    bytes += frame.bytes();
    transmissions += frame.to == kAllNodes && !info_.multicast ? info_.peers.size() : 1;
    ++result.accepted;
  }
  counters_.Sent(result.accepted, bytes, transmissions);
  PollSend(now_ns);
  return result;
}

uint64_t FaultyTransport::Reclaim() {
  PollSend(plan_.clock->NowNs());
  return counters_.frames_sent();
}

void FaultyTransport::PollSend(int64_t now_ns) {
  send_stuck_ = false;
  send_.Poll(
      now_ns, [this](FaultQueue::Held* held) { return PassToInner(held); },
      [this](uint32_t slot) { in_flight_.push_back(slot); });
  const uint64_t done = inner_->Reclaim();
  size_t kept = 0;
  for (uint32_t slot : in_flight_) {
    if (send_.held(slot).inner_number <= done) {
      send_.Free(slot);
    } else {
      in_flight_[kept++] = slot;
    }
  }
  in_flight_.resize(kept);
}

FaultQueue::Outcome FaultyTransport::PassToInner(FaultQueue::Held* held) {
  if (held->peer == kAllNodes) {
    if (cut_count_.load() > 0) held->fan_out = true;
    if (held->fan_out) return FanOut(held);
  } else if (IsCut(held->peer)) {
    return FaultQueue::Outcome::kCut;
  }
  return SendInner(held->peer, held);
}

FaultQueue::Outcome FaultyTransport::FanOut(FaultQueue::Held* held) {
  for (; held->fan_next < info_.peers.size(); ++held->fan_next) {
    const NodeId peer = info_.peers[held->fan_next];
    if (!IsCut(peer) && SendInner(peer, held) == FaultQueue::Outcome::kNotNow) {
      return FaultQueue::Outcome::kNotNow;
    }
  }
  return FaultQueue::Outcome::kPassed;
}

FaultQueue::Outcome FaultyTransport::SendInner(NodeId to, FaultQueue::Held* held) {
  const OutFrame frame = {to, {}, held->view()};
  if (inner_->Send({&frame, 1}).accepted == 1) {
    held->inner_number = inner_->counters().frames_sent();
    return FaultQueue::Outcome::kPassed;
  }
  send_stuck_ = true;
  return FaultQueue::Outcome::kNotNow;
}

void FaultyTransport::PollReceive(int64_t now_ns) {
  std::array<InFrame, kBatch> frames;
  while (receive_.FreeSlots() > 0) {
    const size_t room = std::min(receive_.FreeSlots(), kBatch);
    const size_t count = inner_->Receive({frames.data(), room});
    for (size_t i = 0; i < count; ++i) {
      const NodeId from = frames[i].from;
      receive_.Take(from, {from, {}, frames[i].bytes}, IsCut(from), now_ns);
    }
    inner_->Release();
    if (count < room) return;
  }
}

size_t FaultyTransport::Receive(std::span<InFrame> frames) {
  const int64_t now_ns = plan_.clock->NowNs();
  PollSend(now_ns);
  PollReceive(now_ns);
  size_t count = 0;
  uint64_t bytes = 0;
  receive_.Poll(
      now_ns,
      [&](FaultQueue::Held* held) {
        if (count == frames.size()) return FaultQueue::Outcome::kStop;
        if (IsCut(held->peer)) return FaultQueue::Outcome::kCut;
        frames[count++] = {held->peer, held->view()};
        bytes += held->bytes;
        return FaultQueue::Outcome::kPassed;
      },
      [this](uint32_t slot) { lent_.push_back(slot); });
  if (count) counters_.Received(count, bytes);
  return count;
}

void FaultyTransport::Release() {
  for (uint32_t slot : lent_) receive_.Free(slot);
  lent_.clear();
}

bool FaultyTransport::RoomAppeared() {
  if (refused_.empty()) return true;
  return std::erase_if(refused_, [this](NodeId peer) { return !Full(peer); }) > 0;
}

WaitResult FaultyTransport::Wait(int64_t deadline_ns, WaitFor what) {
  WaitResult result;
  for (;;) {
    const int64_t now_ns = plan_.clock->NowNs();
    PollSend(now_ns);
    PollReceive(now_ns);
    result.receivable = receive_.HasReady(now_ns);
    result.sendable = what == WaitFor::kReceiveOrSend && RoomAppeared();
    const bool over = result.receivable || result.sendable || result.woken;
    if (over || now_ns >= deadline_ns) {
      // A zero-timeout Wait: only the inner transport knows whether Wake() was called.
      result.woken |= inner_->Wait(INT64_MIN, WaitFor::kReceive).woken;
      return result;
    }
    const int64_t until_ns =
        std::min({deadline_ns, send_.NextDueNs(now_ns), receive_.NextDueNs(now_ns)});
    int64_t inner_until_ns = until_ns;
    if (receive_.FreeSlots() == 0) {
      // The inner Wait would return at once for frames for which no slot is free.
      const timespec pause = {0, std::min(kFullSleepNs, SleepNs(*plan_.clock, until_ns))};
      nanosleep(&pause, nullptr);
      inner_until_ns = INT64_MIN;
    }
    const bool unsent = send_stuck_ || !in_flight_.empty();
    const WaitFor inner_what = unsent ? WaitFor::kReceiveOrSend : WaitFor::kReceive;
    result.woken = inner_->Wait(inner_until_ns, inner_what).woken;
  }
}

}  // namespace millrace::inline transport
