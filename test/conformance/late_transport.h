// Emulates a NIC that sends from the caller's memory: frames accepted by Send are read in later
// calls only, a few at a time, and are complete then. A frame for which the receiver has no room is
// lost. The transport reveals callers that violate the ownership rules.
#ifndef MILLRACE_TEST_CONFORMANCE_LATE_TRANSPORT_H_
#define MILLRACE_TEST_CONFORMANCE_LATE_TRANSPORT_H_

#include <deque>
#include <memory>

#include "millrace/transport.h"

namespace millrace::test {

class LateTransport : public Transport {
 public:
  // Sends nothing in the first `idle_calls` polls.
  LateTransport(std::unique_ptr<Transport> inner, size_t outstanding, int idle_calls = 0)
      : Transport(InfoOf(*inner)),
        inner_(std::move(inner)),
        outstanding_(outstanding),
        idle_calls_(idle_calls) {
    IndexPeers();
  }

  SendResult Send(std::span<const OutFrame> frames) override {
    SendResult result;
    for (const OutFrame& frame : frames) {
      result.status = Check(frame);
      if (result.status == SendStatus::kAccepted && queue_.size() == outstanding_) {
        result.status = SendStatus::kBusy;
        counters_.Busy();
      }
      if (result.status != SendStatus::kAccepted) break;
      queue_.push_back(frame);
      counters_.Sent(1, frame.bytes(), frame.to == kAllNodes ? info_.peers.size() : 1);
      ++result.accepted;
    }
    refused_ = result.status == SendStatus::kBusy;
    return result;
  }

  uint64_t Reclaim() override {
    Poll();
    reclaimed_ = done_;
    return done_;
  }

  size_t Receive(std::span<InFrame> frames) override {
    Poll();
    const size_t count = inner_->Receive(frames);
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += frames[i].bytes.size();
    counters_.Received(count, bytes);
    return count;
  }

  void Release() override { inner_->Release(); }

  WaitResult Wait(int64_t deadline_ns, WaitFor what) override {
    WaitResult result = inner_->Wait(INT64_MIN, WaitFor::kReceive);
    Poll();
    const bool room =
        refused_ ? queue_.size() < outstanding_ : done_ > reclaimed_ || queue_.empty();
    if (what == WaitFor::kReceiveOrSend && room) {
      result.sendable = true;
      refused_ = false;
    }
    if (result.receivable || result.sendable || result.woken) return result;
    return inner_->Wait(deadline_ns, what);
  }

  void Wake() override { inner_->Wake(); }

 private:
  static TransportInfo InfoOf(const Transport& inner) {
    TransportInfo info = inner.info();
    info.name = "late";
    info.copies = false;
    info.lossless = false;
    return info;
  }

  // Sends a few of the queued frames, in order.
  void Poll() {
    if (idle_calls_ > 0) {
      --idle_calls_;
      return;
    }
    for (int i = 0; i < 4 && !queue_.empty(); ++i) {
      if (inner_->Send({&queue_.front(), 1}).accepted == 0) counters_.Drop(DropReason::kFailed);
      queue_.pop_front();
      ++done_;
    }
  }

  std::unique_ptr<Transport> inner_;
  const size_t outstanding_;
  int idle_calls_;
  std::deque<OutFrame> queue_;
  uint64_t done_ = 0, reclaimed_ = 0;
  bool refused_ = false;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CONFORMANCE_LATE_TRANSPORT_H_
