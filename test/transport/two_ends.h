// Two credited endpoints and the network between them, without sockets, threads or real time: one
// step is a millisecond. The network loses datagrams at random, from a seed, and accepts forged
// ones.
#ifndef MILLRACE_TEST_TRANSPORT_TWO_ENDS_H_
#define MILLRACE_TEST_TRANSPORT_TWO_ENDS_H_

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "transport/credited_endpoint.h"

namespace millrace::test {

inline constexpr int64_t kMs = 1'000'000;

// Datagrams in flight between nodes 0 and 1, and counters.
struct Wire {
  struct Letter {
    Datagram datagram;  // its bytes refer to `memory`
    std::vector<uint64_t> memory;
    size_t bytes = 0;
  };

  // From node `from` to the other node.
  void Post(size_t from, const Datagram& datagram, const OutFrame& frame = {}) {
    ++posted[from];
    if (datagram.kind != DatagramKind::kFrame) ++control_posted[from];
    if (seen) seen(from, datagram);
    if (cut || rng.Uniform() < loss) return;
    Forge(1 - from, datagram, frame);
  }
  // Delivers a datagram to node `to` as if the other node had sent it.
  void Forge(size_t to, const Datagram& datagram, const OutFrame& frame = {}) {
    Letter letter = {datagram, std::vector<uint64_t>(frame.bytes() / 8 + 1), frame.bytes()};
    frame.CopyTo(reinterpret_cast<std::byte*>(letter.memory.data()));
    mail[to].push_back(std::move(letter));
  }

  Rng rng{1, {}};
  double loss = 0;
  bool cut = false;
  bool full = false;                                       // SendCredit fails for lack of room
  std::function<void(size_t from, const Datagram&)> seen;  // called for each datagram posted
  std::array<std::deque<Letter>, 2> mail;                  // by receiver
  std::array<uint64_t, 2> posted{}, control_posted{};      // by sender
};

class WireLink : public DatagramLink {
 public:
  WireLink(Wire* wire, size_t node) : wire_(*wire), node_(node) {}

  void Add(size_t, uint16_t tag, uint32_t sequence, const OutFrame& frame) override {
    Datagram datagram;
    datagram.tag = tag;
    datagram.sequence = sequence;
    added_.push_back({datagram, frame});
  }
  Flushed Flush() override {
    Flushed flushed;
    for (const auto& [datagram, frame] : added_) {
      wire_.Post(node_, datagram, frame);
      ++flushed.frames;
      flushed.bytes += frame.bytes();
    }
    added_.clear();
    return flushed;
  }
  bool SendCredit(size_t, const ControlMessage& credit) override {
    if (wire_.full) return false;
    Datagram datagram;
    datagram.kind = DatagramKind::kCredit;
    datagram.control = credit;
    wire_.Post(node_, datagram);
    return true;
  }
  bool SendProbe(size_t, const ControlMessage& probe, bool) override {
    Datagram datagram;
    datagram.kind = DatagramKind::kProbe;
    datagram.control = probe;
    wire_.Post(node_, datagram);
    return true;
  }
  bool Read(Sink* sink) override {
    constexpr size_t kMost = 16;
    std::deque<Wire::Letter>& mail = wire_.mail[node_];
    const size_t count = std::min(kMost, mail.size());
    for (size_t i = 0; i < count; ++i) {
      Wire::Letter letter = std::move(mail.front());
      mail.pop_front();
      letter.datagram.bytes = std::as_bytes(std::span(letter.memory)).first(letter.bytes);
      letter.datagram.position = head();
      if (sink->Take(letter.datagram)) kept_.push_back(std::move(letter.memory));
    }
    return count > 0;
  }
  void GiveBack(uint64_t position) override {
    for (; first_ < position; ++first_) kept_.pop_front();
  }
  uint64_t head() const override { return first_ + kept_.size(); }
  Polled Poll(int, int64_t, bool) override { return {}; }

 private:
  Wire& wire_;
  const size_t node_;
  std::vector<std::pair<Datagram, OutFrame>> added_;
  std::deque<std::vector<uint64_t>> kept_;
  uint64_t first_ = 0;
};

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
    ends_[node] = std::make_unique<CreditedEndpoint>(std::make_unique<WireLink>(&wire, node), plan);
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

  Wire wire;
  ManualClock clock;
  uint64_t accepted = 0, received = 0;

 private:
  const uint32_t window_;
  const int64_t silence_ns_;
  std::array<std::unique_ptr<CreditedEndpoint>, 2> ends_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_TRANSPORT_TWO_ENDS_H_
