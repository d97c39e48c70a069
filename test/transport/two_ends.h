// Two credited endpoints and the wire between them, without sockets, threads or real time: one step
// is a millisecond.
#ifndef MILLRACE_TEST_TRANSPORT_TWO_ENDS_H_
#define MILLRACE_TEST_TRANSPORT_TWO_ENDS_H_

#include <array>
#include <memory>

#include "test/support/fake_clock.h"
#include "test/support/fake_link.h"
#include "transport/credited_endpoint.h"

namespace millrace::test {

inline constexpr int64_t kMs = 1'000'000;

// Node 0 sends to node 1.
class TwoEnds {
 public:
  static constexpr uint32_t kWindow = 64;

  explicit TwoEnds(uint64_t seed = 1, double loss = 0, uint32_t window = kWindow,
                   int64_t silence_ns = 2000 * kMs)
      : window_(window), silence_ns_(silence_ns) {
    wire.rng = Rng(seed, {});
    wire.loss = loss;
    for (size_t node : {0, 1}) Start(node);
  }

  // Starts the node, or restarts it with a new endpoint.
  void Start(size_t node) {
    CreditedPlan plan;
    plan.info.name = "wire";
    plan.info.node = static_cast<NodeId>(node);
    plan.info.peers = {static_cast<NodeId>(1 - node)};
    plan.info.max_frame_bytes = 64;
    plan.info.copies = true;
    plan.window_frames = window_;
    plan.receive_queue_frames = window_;  // the size of a window
    plan.silence_ns = silence_ns_;
    plan.clock = &clock;
    ends_[node].reset();
    ends_[node] = std::make_unique<CreditedEndpoint>(
        std::make_unique<FakeLink>(std::shared_ptr<FakeWire>(std::shared_ptr<void>(), &wire),
                                   plan.info.node),
        plan);
  }
  CreditedEndpoint& end(size_t node) { return *ends_[node]; }

  // Offers up to `most` frames at node 0; returns how many it accepts.
  size_t Send(size_t most) {
    const std::array<std::byte, 16> bytes{};
    const OutFrame frame = {1, {}, bytes};
    size_t count = 0;
    while (count < most && end(0).Send({&frame, 1}).accepted == 1) ++count;
    accepted += count;
    return count;
  }
  // Lets node 0 process its datagrams; returns whether it may send.
  bool SenderWaits() { return end(0).Wait(clock.NowNs(), WaitFor::kReceiveOrSend).sendable; }
  // Receives the frames that have arrived at node 1 and releases their buffers.
  void Receive() {
    std::array<InFrame, 16> frames;
    while (const size_t count = end(1).Receive(frames)) {
      received += count;
      end(1).Release();
    }
    end(1).Wait(clock.NowNs(), WaitFor::kReceive);
  }
  void Step(size_t most) {
    Send(most);
    SenderWaits();
    Receive();
    clock.AdvanceNs(kMs);
  }
  uint64_t Overruns() { return end(1).counters().dropped(DropReason::kOverrun); }
  uint64_t Unreachable() { return end(0).counters().dropped(DropReason::kUnreachable); }

  FakeWire wire{2};
  FakeClock clock;
  uint64_t accepted = 0, received = 0;

 private:
  const uint32_t window_;
  const int64_t silence_ns_;
  std::array<std::unique_ptr<CreditedEndpoint>, 2> ends_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_TRANSPORT_TWO_ENDS_H_
