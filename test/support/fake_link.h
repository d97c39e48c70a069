// Datagram links in memory, below credited endpoints, and the wire that joins them. Tests let the
// wire lose datagrams, forge some, and emulate the links of network devices: RDMA devices send
// frames from the caller's memory after Send has returned, and find their peers first.
#ifndef MILLRACE_TEST_SUPPORT_FAKE_LINK_H_
#define MILLRACE_TEST_SUPPORT_FAKE_LINK_H_

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "millrace/file_descriptor.h"
#include "transport/datagram_link.h"

namespace millrace::test {

// Datagrams in flight between nodes. Thread-safe, except for its public members: they are for tests
// that run all links on one thread.
class FakeWire {
 public:
  struct Letter {
    NodeId from = 0;
    Datagram datagram;  // without bytes
    std::vector<uint64_t> memory = {};
    size_t bytes = 0;
    std::span<const std::byte> view() const {
      return std::as_bytes(std::span(memory)).first(bytes);
    }
  };

  explicit FakeWire(size_t nodes) : posted(nodes), control_posted(nodes), nodes_(nodes) {}

  // Sends a datagram, unless it is lost.
  void Post(NodeId from, NodeId to, const Datagram& datagram, const OutFrame& frame = {}) {
    ++posted[from];
    if (datagram.kind != DatagramKind::kFrame) ++control_posted[from];
    if (seen) seen(from, to, datagram);
    if (cut || to == deaf || (loss > 0 && rng.Uniform() < loss)) return;
    Forge(from, to, datagram, frame);
  }
  // Delivers a datagram as if `from` had sent it.
  void Forge(NodeId from, NodeId to, const Datagram& datagram, const OutFrame& frame = {}) {
    Letter letter = {from, datagram, std::vector<uint64_t>(frame.bytes() / 8 + 1), frame.bytes()};
    frame.CopyTo(reinterpret_cast<std::byte*>(letter.memory.data()));
    std::lock_guard lock(mutex_);
    nodes_[to].mail.push_back(std::move(letter));
    if (nodes_[to].bell < 0) return;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(nodes_[to].bell, &one, sizeof(one));
  }
  // Takes the next letter to a node, unless there is none, or it is a frame and `frames` is false.
  bool Take(NodeId to, bool frames, Letter* letter) {
    std::lock_guard lock(mutex_);
    std::deque<Letter>& mail = nodes_[to].mail;
    if (mail.empty() || (!frames && mail.front().datagram.kind == DatagramKind::kFrame)) {
      return false;
    }
    *letter = std::move(mail.front());
    mail.pop_front();
    return true;
  }
  // Discards all datagrams in flight to a node.
  void Clear(NodeId to) {
    std::lock_guard lock(mutex_);
    nodes_[to].mail.clear();
  }
  size_t size() const { return nodes_.size(); }

  Rng rng{1, {}};
  double loss = 0;
  bool cut = false;
  int deaf = -1;            // a node that nothing reaches; -1: none
  bool no_credits = false;  // SendCredit fails for lack of room
  size_t room = SIZE_MAX;   // frames that links accept before they are full, if not late
  // Called for each datagram posted.
  std::function<void(NodeId from, NodeId to, const Datagram&)> seen;
  std::vector<uint64_t> posted, control_posted;  // by sender

 private:
  friend class FakeLink;
  struct Node {
    std::deque<Letter> mail;
    int bell = -1;  // an eventfd that is rung for each letter; -1: the node has no link
  };
  void Attach(NodeId node, int bell) {
    std::lock_guard lock(mutex_);
    nodes_[node].bell = bell;
  }
  bool IsAttached(NodeId node) {
    std::lock_guard lock(mutex_);
    return nodes_[node].bell >= 0;
  }

  std::mutex mutex_;  // guards nodes_
  std::vector<Node> nodes_;
};

struct FakeLinkOptions {
  // Above 0: at most this many frames are outstanding. A few of them leave in each later call.
  size_t outstanding = 0;
  size_t buffers = SIZE_MAX;  // for received frames
  bool finds_peers = false;   // reaches only peers that have a link
};

// The link of one node to all others.
class FakeLink : public DatagramLink {
 public:
  FakeLink(std::shared_ptr<FakeWire> wire, NodeId node, const FakeLinkOptions& options = {})
      : wire_(std::move(wire)),
        node_(node),
        options_(options),
        bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        found_(wire_->size() - 1, !options.finds_peers) {
    wire_->Attach(node, bell_.get());
  }
  ~FakeLink() override { wire_->Attach(node_, -1); }

  bool Reaches(size_t peer) const override { return found_[peer]; }
  uint64_t Unfinished() override {
    Work();
    return late_.size();
  }
  void Add(size_t peer, uint16_t tag, uint32_t sequence, const OutFrame& frame) override {
    Datagram datagram;
    datagram.tag = tag;
    datagram.sequence = sequence;
    datagram.to_all = peer == kAllPeers;
    added_.push_back({peer, datagram, frame});
  }
  Flushed Flush() override {
    Flushed flushed;
    for (const Outgoing& each : added_) {
      flushed.busy = is_late() ? late_.size() == options_.outstanding : wire_->room == 0;
      if (flushed.busy) break;
      ++flushed.frames;
      flushed.bytes += each.frame.bytes();
      if (is_late()) {
        late_.push_back(each);
        continue;
      }
      --wire_->room;
      Post(each);
    }
    added_.clear();
    refused_ = flushed.busy;
    return flushed;
  }
  bool SendCredit(size_t peer, const ControlMessage& credit) override {
    if (wire_->no_credits) return false;
    Post({peer, Control(DatagramKind::kCredit, credit, false), {}});
    return true;
  }
  bool SendProbe(size_t peer, const ControlMessage& probe, bool to_all) override {
    Post({peer, Control(DatagramKind::kProbe, probe, to_all), {}});
    return true;
  }
  bool Read(Sink* sink) override {
    constexpr int kMax = 16;
    Work();
    FindPeers(sink);
    std::vector<FakeWire::Letter> arrived;
    FakeWire::Letter letter;
    while (arrived.size() < kMax &&
           wire_->Take(node_, kept_.size() + arrived.size() < options_.buffers, &letter)) {
      arrived.push_back(std::move(letter));
    }
    for (FakeWire::Letter& each : arrived) {
      each.datagram.peer = each.from - (each.from > node_ ? size_t{1} : 0);
      each.datagram.bytes = each.view();
      each.datagram.position = head();
      if (sink->Take(each.datagram)) kept_.push_back(std::move(each.memory));
    }
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
    const bool room = wants_room && (!refused_ || late_.size() < options_.outstanding);
    return {room, (polled[1].revents & POLLIN) != 0};
  }

  static Datagram Control(DatagramKind kind, const ControlMessage& message, bool to_all = false) {
    Datagram datagram;
    datagram.kind = kind;
    datagram.control = message;
    datagram.to_all = to_all;
    return datagram;
  }

 private:
  struct Outgoing {
    size_t peer;
    Datagram datagram;
    OutFrame frame;
  };

  bool is_late() const { return options_.outstanding > 0; }
  NodeId NodeAt(size_t peer) const { return static_cast<NodeId>(peer + (peer >= node_ ? 1 : 0)); }
  void Post(const Outgoing& out) {
    for (size_t peer = 0; peer < found_.size(); ++peer) {
      if (out.peer == peer || out.peer == kAllPeers) {
        wire_->Post(node_, NodeAt(peer), out.datagram, out.frame);
      }
    }
  }
  // Sends a few of the late frames.
  void Work() {
    for (int i = 0; i < 3 && !late_.empty(); ++i) {
      Post(late_.front());
      late_.pop_front();
    }
  }
  void FindPeers(Sink* sink) {
    for (size_t peer = 0; peer < found_.size(); ++peer) {
      if (found_[peer] || !wire_->IsAttached(NodeAt(peer))) continue;
      found_[peer] = true;
      sink->Reached(peer);
    }
  }

  const std::shared_ptr<FakeWire> wire_;
  const NodeId node_;
  const FakeLinkOptions options_;
  const FileDescriptor bell_;
  std::vector<bool> found_;  // by peer
  std::vector<Outgoing> added_;
  std::deque<Outgoing> late_;
  bool refused_ = false;
  std::deque<std::vector<uint64_t>> kept_;
  uint64_t first_ = 0;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_FAKE_LINK_H_
