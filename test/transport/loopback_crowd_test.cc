// Many nodes of one hub at once: several threads copy into the same queue, and their multicasts
// compete for room in all queues.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "test/support/support.h"
#include "transport/loopback/transport.h"

namespace millrace {
namespace {

constexpr int kNodes = 4;
constexpr uint64_t kEach = 5'000;  // frames sent by each node; every fourth is a multicast

struct Message {
  uint64_t sender = 0, number = 0, check = 0;

  static Message Of(uint64_t sender, uint64_t number) {
    return {sender, number, (sender << 48 ^ number) * 0x9e3779b97f4a7c15};
  }
};

bool ToAll(uint64_t number) { return number % 4 == 0; }
NodeId Target(uint64_t sender, uint64_t number) {
  return static_cast<NodeId>((sender + 1 + number % (kNodes - 1)) % kNodes);
}

// Number of frames that node `to` receives from all others.
uint64_t Expected(uint64_t to) {
  uint64_t count = 0;
  for (uint64_t sender = 0; sender < kNodes; ++sender) {
    for (uint64_t number = 0; sender != to && number < kEach; ++number) {
      count += ToAll(number) || Target(sender, number) == to;
    }
  }
  return count;
}

class Crowd {
 public:
  explicit Crowd(std::unique_ptr<Transport> transport)
      : transport_(std::move(transport)), next_(kNodes) {}

  void Run() {
    const uint64_t self = transport_->info().node, wanted = Expected(self);
    for (uint64_t number = 0; number < kEach || received_ < wanted;) {
      bool moved = false;
      if (number < kEach) {
        const Message message = Message::Of(self, number);
        const OutFrame frame{ToAll(number) ? kAllNodes : Target(self, number),
                             std::as_bytes(std::span(&message, 1)),
                             {}};
        moved = transport_->Send({&frame, 1}).accepted > 0;
        number += moved;
      }
      moved = Take(self) || moved;
      if (moved) continue;
      const int64_t soon = DefaultClock().NowNs() + 1'000'000;
      transport_->Wait(soon, number < kEach ? WaitFor::kReceiveOrSend : WaitFor::kReceive);
    }
  }
  uint64_t received() const { return received_; }
  bool in_order() const { return in_order_; }

 private:
  // Each sender's frames arrive intact, once, and in the order sent.
  bool Take(uint64_t self) {
    InFrame frames[16];
    const size_t count = transport_->Receive(frames);
    for (size_t i = 0; i < count; ++i) {
      Message message;
      in_order_ = in_order_ && frames[i].bytes.size() == sizeof(message);
      std::memcpy(&message, frames[i].bytes.data(), sizeof(message));
      const Message sent = Message::Of(frames[i].from, message.number);
      uint64_t& next = next_[frames[i].from];
      while (next < kEach && !ToAll(next) && Target(sent.sender, next) != self) ++next;
      in_order_ = in_order_ && message.sender == sent.sender && message.check == sent.check &&
                  message.number == next;
      ++next;
    }
    transport_->Release();
    received_ += count;
    return count > 0;
  }

  std::unique_ptr<Transport> transport_;
  std::vector<uint64_t> next_;  // by sender
  uint64_t received_ = 0;
  bool in_order_ = true;
};

TEST(Loopback, TakesFramesOfManyThreadsIntoOneQueueWithoutLossOrMixing) {
  LoopbackHub hub({.nodes = kNodes, .queue_frames = 16, .max_frame_bytes = 64});
  std::vector<std::unique_ptr<Crowd>> crowd;
  for (int node = 0; node < kNodes; ++node) {
    crowd.push_back(std::make_unique<Crowd>(hub.Connect(node)));
  }
  std::vector<std::thread> threads;
  for (const auto& one : crowd) threads.emplace_back([&one] { one->Run(); });
  for (std::thread& thread : threads) thread.join();
  for (int node = 0; node < kNodes; ++node) {
    EXPECT_EQ(crowd[node]->received(), Expected(node));
    EXPECT_TRUE(crowd[node]->in_order());
  }
}

}  // namespace
}  // namespace millrace
