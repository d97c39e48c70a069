// Transport that decorates another one. It enforces the rules on memory ownership, emulates network
// devices, and can be full or receive forged frames.
#ifndef MILLRACE_TEST_SUPPORT_FAKE_TRANSPORT_H_
#define MILLRACE_TEST_SUPPORT_FAKE_TRANSPORT_H_

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/threads/cache_line.h"
#include "millrace/device.h"
#include "millrace/transport.h"
#include "test/support/fake_device.h"

namespace millrace::test {

struct FakeTransportOptions {
  // Above 0: a NIC that sends from the caller's memory. At most this many frames are outstanding.
  // They are read in later calls only, a few at a time, and are complete then; a frame for which
  // the receiver has no room is lost.
  size_t outstanding = 0;
  int idle_calls = 0;  // polls in which no outstanding frame leaves
  // Above 0: lends at most this many received frames at once, from memory of its own, and
  // overwrites it as soon as they are released. A kernel that reads them too late sees NaN.
  size_t buffers = 0;
  bool says_where = true;             // ReceiveMemory returns the location of lent frames
  const FakeDevice* reads = nullptr;  // device memory from which payloads are sent without a copy
  const bool* full = nullptr;         // while true, Send accepts no frame
  const NodeId* full_to = nullptr;    // Send accepts no frame to this node
  // Frames that are received before others, and removed then, as if `forged_from` had sent them.
  std::deque<std::vector<std::byte>>* forged = nullptr;
  NodeId forged_from = 0;
};

// What the options refer to has to outlive the transport.
class FakeTransport : public Transport {
 public:
  FakeTransport(std::unique_ptr<Transport> inner, const FakeTransportOptions& options)
      : Transport(InfoOf(*inner, options)),
        options_(options),
        inner_(std::move(inner)),
        stride_(WholeCacheLines(max_frame_bytes())),
        memory_(HostMemory(), std::max<size_t>(options.buffers, 1) * stride_),
        idle_calls_(options.idle_calls) {
    IndexPeers();
    Spoil();
  }

  SendResult Send(std::span<const OutFrame> frames) override {
    SendResult result;
    for (const OutFrame& frame : frames) {
      result.status = is_late() ? Enqueue(frame) : SendNow(frame);
      if (result.status != SendStatus::kAccepted) break;
      counters_.Sent(1, frame.bytes(), frame.to == kAllNodes ? info_.peers.size() : 1);
      ++result.accepted;
    }
    refused_ = result.status == SendStatus::kBusy;
    return result;
  }
  uint64_t Reclaim() override {
    if (!is_late()) return inner_->Reclaim();
    Poll();
    return reclaimed_ = done_;
  }
  size_t Receive(std::span<InFrame> frames) override {
    Poll();
    if (options_.forged != nullptr && !options_.forged->empty() && !frames.empty()) {
      forged_ = std::move(options_.forged->front());
      options_.forged->pop_front();
      frames[0] = {options_.forged_from, forged_};
      return 1;
    }
    if (options_.buffers > 0) {
      frames = frames.first(std::min(frames.size(), options_.buffers - lent_));
    }
    const size_t count = inner_->Receive(frames);
    uint64_t bytes = 0;
    for (InFrame& frame : frames.first(count)) bytes += frame.bytes.size();
    counters_.Received(count, bytes);
    if (options_.buffers > 0) Lend(frames.first(count));
    return count;
  }
  void Release() override {
    if (lent_ > 0) Spoil();
    lent_ = 0;
    inner_->Release();
  }
  WaitResult Wait(int64_t deadline_ns, WaitFor what) override {
    if (!is_late()) return inner_->Wait(deadline_ns, what);
    WaitResult result = inner_->Wait(INT64_MIN, WaitFor::kReceive);
    Poll();
    const bool room =
        refused_ ? queue_.size() < options_.outstanding : done_ > reclaimed_ || queue_.empty();
    if (what == WaitFor::kReceiveOrSend && room) {
      result.sendable = true;
      refused_ = false;
    }
    if (result.receivable || result.sendable || result.woken) return result;
    return inner_->Wait(deadline_ns, what);
  }
  void Wake() override { inner_->Wake(); }
  bool RegisterMemory(std::span<const std::byte> memory) override {
    return options_.reads != nullptr && options_.reads->Owns(memory.data());
  }
  std::vector<std::span<const std::byte>> ReceiveMemory() const override {
    if (options_.buffers == 0 || !options_.says_where) return {};
    return {{memory_.get<std::byte>(), memory_.bytes()}};
  }

  size_t lent() const { return lent_; }
  size_t max_lent = 0;
  uint64_t from_device = 0;  // number of payloads sent from device memory

 private:
  static TransportInfo InfoOf(const Transport& inner, const FakeTransportOptions& options) {
    TransportInfo info = inner.info();
    if (options.outstanding == 0) return info;
    info.name = "late";
    info.copies = false;
    info.lossless = false;
    return info;
  }
  bool is_late() const { return options_.outstanding > 0; }

  SendStatus SendNow(OutFrame frame) {
    if ((options_.full != nullptr && *options_.full) ||
        (options_.full_to != nullptr && frame.to == *options_.full_to)) {
      return SendStatus::kBusy;
    }
    if (options_.reads != nullptr && options_.reads->Owns(frame.payload.data())) {
      frame.payload = {options_.reads->Alias(frame.payload.data()), frame.payload.size()};
      ++from_device;
    }
    return inner_->Send({&frame, 1}).status;
  }
  SendStatus Enqueue(const OutFrame& frame) {
    const SendStatus status = Check(frame);
    if (status != SendStatus::kAccepted) return status;
    if (queue_.size() == options_.outstanding) {
      counters_.Busy();
      return SendStatus::kBusy;
    }
    queue_.push_back(frame);
    return status;
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
  void Lend(std::span<InFrame> frames) {
    for (InFrame& frame : frames) {
      std::byte* const to = memory_.get<std::byte>() + lent_++ * stride_;
      std::memcpy(to, frame.bytes.data(), frame.bytes.size());
      frame.bytes = {to, frame.bytes.size()};
    }
    inner_->Release();
    max_lent = std::max(max_lent, lent_);
  }
  void Spoil() { std::memset(memory_.get(), 0xff, std::max<size_t>(lent_, 1) * stride_); }

  const FakeTransportOptions options_;
  const std::unique_ptr<Transport> inner_;
  const size_t stride_;
  Buffer memory_;  // of lent frames
  size_t lent_ = 0;
  std::vector<std::byte> forged_;  // the last frame of `forged`
  std::deque<OutFrame> queue_;     // frames outstanding
  int idle_calls_;
  uint64_t done_ = 0, reclaimed_ = 0;
  bool refused_ = false;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_FAKE_TRANSPORT_H_
