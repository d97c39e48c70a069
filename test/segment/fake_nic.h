// A transport between an inner one and a segment that enforces memory ownership: it lends frames
// from memory of its own and overwrites it as soon as they are released. It can also emulate a
// network device that reads GPU memory directly.
#ifndef MILLRACE_TEST_SEGMENT_FAKE_NIC_H_
#define MILLRACE_TEST_SEGMENT_FAKE_NIC_H_

#include <cstring>
#include <memory>
#include <vector>

#include "base/cache_line.h"
#include "base/error.h"
#include "millrace/transport.h"
#include "test/support/fake_device.h"

namespace millrace::test {

struct FakeNicOptions {
  size_t buffers = 2048;              // maximum frames lent at once
  bool says_where = true;             // ReceiveMemory returns the location of received frames
  const FakeDevice* reads = nullptr;  // device memory from which payloads are sent without a copy
  const bool* full = nullptr;         // while true, Send accepts no frame
  const NodeId* full_to = nullptr;    // while `full_to` is set, Send accepts no frame to this node
};

class FakeNic : public Transport {
 public:
  FakeNic(std::unique_ptr<Transport> inner, const FakeNicOptions& options)
      : Transport(inner->info()),
        options_(options),
        inner_(std::move(inner)),
        stride_(WholeCacheLines(max_frame_bytes())),
        memory_(HostMemory(), options.buffers * stride_) {
    IndexPeers();
    Spoil();
  }

  SendResult Send(std::span<const OutFrame> frames) override {
    SendResult sent;
    if (options_.full != nullptr && *options_.full) return {0, SendStatus::kBusy};
    for (OutFrame frame : frames) {
      if (options_.full_to != nullptr && frame.to == *options_.full_to) {
        sent.status = SendStatus::kBusy;
        break;
      }
      if (options_.reads != nullptr && options_.reads->Owns(frame.payload.data())) {
        frame.payload = {options_.reads->Alias(frame.payload.data()), frame.payload.size()};
        ++from_device;
      }
      const SendResult one = inner_->Send({&frame, 1});
      sent.accepted += one.accepted;
      sent.status = one.status;
      if (one.accepted == 0) break;
    }
    return sent;
  }
  uint64_t Reclaim() override { return inner_->Reclaim(); }
  size_t Receive(std::span<InFrame> frames) override {
    const size_t count =
        inner_->Receive(frames.first(std::min(frames.size(), options_.buffers - lent_)));
    for (size_t i = 0; i < count; ++i) {
      std::byte* const to = memory_.get<std::byte>() + lent_++ * stride_;
      std::memcpy(to, frames[i].bytes.data(), frames[i].bytes.size());
      frames[i].bytes = {to, frames[i].bytes.size()};
    }
    inner_->Release();
    most_lent = std::max(most_lent, lent_);
    return count;
  }
  void Release() override {
    if (lent_ > 0) Spoil();
    lent_ = 0;
  }
  WaitResult Wait(int64_t deadline_ns, WaitFor what) override {
    return inner_->Wait(deadline_ns, what);
  }
  void Wake() override { inner_->Wake(); }
  bool RegisterMemory(std::span<const std::byte> memory) override {
    return options_.reads != nullptr && options_.reads->Owns(memory.data());
  }
  std::vector<std::span<const std::byte>> ReceiveMemory() const override {
    if (!options_.says_where) return {};
    return {{memory_.get<std::byte>(), memory_.bytes()}};
  }

  size_t lent() const { return lent_; }
  size_t most_lent = 0;
  uint64_t from_device = 0;  // number of payloads sent from device memory

 private:
  // Overwrites the lent frames. A kernel that reads them too late sees NaN.
  void Spoil() { std::memset(memory_.get(), 0xff, std::max<size_t>(lent_, 1) * stride_); }

  const FakeNicOptions options_;
  const std::unique_ptr<Transport> inner_;
  const size_t stride_;
  Buffer memory_;
  size_t lent_ = 0;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SEGMENT_FAKE_NIC_H_
