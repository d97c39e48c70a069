// An in-memory fabric for the credited endpoint with the properties of RDMA: one datagram reaches
// all peers, frames are read from the caller's memory after Send has returned, and peers must be
// found before frames can be sent to them.
#ifndef MILLRACE_TEST_CONFORMANCE_MEMORY_LINK_H_
#define MILLRACE_TEST_CONFORMANCE_MEMORY_LINK_H_

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "millrace/file_descriptor.h"
#include "test/conformance/traffic.h"
#include "transport/credited_endpoint.h"

namespace millrace::test {

class MemoryLink;

// The links of all nodes. Thread-safe: `mutex` guards `links`.
struct MemoryFabric {
  std::mutex mutex;
  std::vector<MemoryLink*> links;  // by node; null: the node has no link
};

// Peers are indexed by node id, skipping this link's own node.
class MemoryLink : public DatagramLink {
 public:
  MemoryLink(std::shared_ptr<MemoryFabric> fabric, NodeId node, size_t slots, size_t buffers)
      : fabric_(std::move(fabric)),
        node_(node),
        slots_(slots),
        buffers_(buffers),
        bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        found_(fabric_->links.size() - 1, false) {
    std::lock_guard lock(fabric_->mutex);
    fabric_->links[node] = this;
  }
  ~MemoryLink() override {
    std::lock_guard lock(fabric_->mutex);
    fabric_->links[node_] = nullptr;
  }

  bool Reaches(size_t peer) const override { return found_[peer]; }
  uint64_t Unfinished() override {
    Work();
    return late_.size();
  }

  void Add(size_t peer, uint16_t tag, uint32_t sequence, const OutFrame& frame) override {
    if (late_.size() == slots_) flushed_.busy = true;
    if (flushed_.busy) return;
    late_.push_back({peer, {DatagramKind::kFrame, peer == kAllPeers, sequence, tag, {}}, frame});
    ++flushed_.frames;
    flushed_.bytes += frame.bytes();
  }
  Flushed Flush() override {
    refused_ = flushed_.busy;
    return std::exchange(flushed_, {});
  }
  bool SendCredit(size_t peer, const ControlMessage& credit) override {
    Deliver(peer, {DatagramKind::kCredit, false, 0, 0, credit}, {});
    return true;
  }
  bool SendProbe(size_t peer, const ControlMessage& probe, bool to_all) override {
    Deliver(peer, {DatagramKind::kProbe, to_all, 0, 0, probe}, {});
    return true;
  }

  bool Read(Sink* sink) override {
    Work();
    Find(sink);
    std::deque<Arrival> arrived;
    {
      std::lock_guard lock(mutex_);
      while (!mail_.empty() && (kept_.size() < buffers_ || mail_.front().head.kind > kFirst)) {
        arrived.push_back(std::move(mail_.front()));
        mail_.pop_front();
      }
    }
    for (Arrival& arrival : arrived) Take(std::move(arrival), sink);
    return !arrived.empty();
  }
  void GiveBack(uint64_t position) override {
    for (; first_ < position; ++first_) kept_.pop_front();
  }
  uint64_t head() const override { return first_ + kept_.size(); }

  Polled Poll(int wake, int64_t ns, bool wants_room) override {
    if (wants_room && !late_.empty()) ns = 0;
    pollfd polled[2] = {{bell_.get(), POLLIN, 0}, {wake, POLLIN, 0}};
    const timespec timeout = {ns / 1'000'000'000, ns % 1'000'000'000};
    ppoll(polled, 2, &timeout, nullptr);
    uint64_t rings = 0;
    [[maybe_unused]] const ssize_t got = read(bell_.get(), &rings, sizeof(rings));
    Work();
    const bool room = wants_room && (!refused_ || late_.size() < slots_);
    return {room, (polled[1].revents & POLLIN) != 0};
  }

 private:
  static constexpr DatagramKind kFirst = DatagramKind::kFrame;
  struct Head {
    DatagramKind kind;
    bool to_all;
    uint32_t sequence;
    uint16_t tag;
    ControlMessage control;
  };
  struct Late {
    size_t peer;
    Head head;
    OutFrame frame;
  };
  struct Arrival {
    NodeId from;
    Head head;
    size_t bytes;
    std::vector<uint64_t> memory;
  };

  NodeId NodeAt(size_t peer) const { return static_cast<NodeId>(peer + (peer >= node_ ? 1 : 0)); }

  // Sends a few of the queued frames from the caller's memory.
  void Work() {
    for (int i = 0; i < 3 && !late_.empty(); ++i) {
      const Late& late = late_.front();
      for (size_t peer = 0; peer < found_.size(); ++peer) {
        if (late.peer == peer || late.peer == kAllPeers) Deliver(peer, late.head, late.frame);
      }
      late_.pop_front();
    }
  }
  void Deliver(size_t peer, const Head& head, const OutFrame& frame) {
    Arrival arrival = {node_, head, frame.bytes(), std::vector<uint64_t>(frame.bytes() / 8 + 1)};
    frame.CopyTo(reinterpret_cast<std::byte*>(arrival.memory.data()));
    std::lock_guard fabric_lock(fabric_->mutex);
    MemoryLink* const to = fabric_->links[NodeAt(peer)];
    if (!to) return;
    std::lock_guard lock(to->mutex_);
    to->mail_.push_back(std::move(arrival));
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(to->bell_.get(), &one, sizeof(one));
  }
  void Find(Sink* sink) {
    for (size_t peer = 0; peer < found_.size(); ++peer) {
      if (found_[peer]) continue;
      {
        std::lock_guard lock(fabric_->mutex);
        found_[peer] = fabric_->links[NodeAt(peer)] != nullptr;
      }
      if (found_[peer]) sink->Reached(peer);
    }
  }
  void Take(Arrival arrival, Sink* sink) {
    Datagram datagram;
    datagram.peer = arrival.from - (arrival.from > node_ ? size_t{1} : 0);
    datagram.kind = arrival.head.kind;
    datagram.sequence = arrival.head.sequence;
    datagram.tag = arrival.head.tag;
    datagram.to_all = arrival.head.to_all;
    datagram.control = arrival.head.control;
    datagram.bytes = std::as_bytes(std::span(arrival.memory)).first(arrival.bytes);
    datagram.position = head();
    if (sink->Take(datagram)) kept_.push_back(std::move(arrival.memory));
  }

  const std::shared_ptr<MemoryFabric> fabric_;
  const NodeId node_;
  const size_t slots_, buffers_;
  const FileDescriptor bell_;
  std::vector<bool> found_;
  std::deque<Late> late_;
  Flushed flushed_;
  bool refused_ = false;
  std::mutex mutex_;  // guards mail_
  std::deque<Arrival> mail_;
  std::deque<std::vector<uint64_t>> kept_;
  uint64_t first_ = 0;
};

inline std::unique_ptr<CreditedEndpoint> ConnectMemory(std::shared_ptr<MemoryFabric> fabric,
                                                       NodeId node, const GroupOptions& group) {
  CreditedPlan plan;
  plan.info.name = "memory";
  plan.info.node = node;
  for (NodeId peer = 0; peer < fabric->links.size(); ++peer) {
    if (peer != node) plan.info.peers.push_back(peer);
  }
  plan.info.max_frame_bytes = 2000;
  plan.info.multicast = true;
  plan.window_frames = group.small_queues ? 7 : 100;
  plan.most_unfinished = group.small_queues ? 16 : 200;
  plan.receive_queue_frames = 1000;
  plan.silence_ns = group.clock == &DefaultClock() ? 300'000'000 : 3'600'000'000'000;
  plan.clock = group.clock;
  return std::make_unique<CreditedEndpoint>(
      std::make_unique<MemoryLink>(std::move(fabric), node, plan.most_unfinished,
                                   plan.receive_queue_frames),
      plan);
}

inline TransportCase MemoryCase() {
  return {"Memory", [](const GroupOptions& options) {
            auto fabric = std::make_shared<MemoryFabric>();
            fabric->links.resize(options.nodes);
            Group group;
            for (NodeId node = 0; node < options.nodes; ++node) {
              group.push_back(ConnectMemory(fabric, node, options));
            }
            for (auto& end : group) end->Wait(INT64_MIN, WaitFor::kReceive);  // finds the others
            return group;
          }};
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CONFORMANCE_MEMORY_LINK_H_
