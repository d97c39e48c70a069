// The two halves of the loopback transport: the place of each node in a hub,
// shared by all, and the endpoint that one node's thread calls.
#ifndef MILLRACE_TRANSPORT_LOOPBACK_ENDPOINT_H_
#define MILLRACE_TRANSPORT_LOOPBACK_ENDPOINT_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/doorbell.h"
#include "transport/frame_ring.h"
#include "transport/loopback/transport.h"

namespace millrace {

// A node's queue and what wakes its thread.
struct LoopbackPlace {
  // Made at the first Connect and kept: a sender may still be copying into it
  // when its endpoint goes.
  std::unique_ptr<FrameRing> ring;
  std::atomic<bool> open{false};  // set after `ring` is made; cleared with the endpoint
  Doorbell bell;
  // Somebody waits for room in this queue.
  std::atomic<bool> wanted{false};
};

class LoopbackHub::State {
 public:
  explicit State(const LoopbackOptions& options) : options(options), places(options.nodes) {}

  // Wakes whoever waits for room in the queue of `place`.
  void AnnounceRoom(LoopbackPlace* place);
  // Drops what is in the queue of `place`, whose endpoint is gone or not there yet.
  static void Drain(LoopbackPlace* place);

  const LoopbackOptions options;
  std::mutex connecting;  // held while a place is opened or closed
  std::vector<LoopbackPlace> places;
};

class LoopbackEndpoint : public Transport {
 public:
  LoopbackEndpoint(NodeId node, std::shared_ptr<LoopbackHub::State> hub);
  ~LoopbackEndpoint() override;

  SendResult Send(std::span<const OutFrame> frames) override;
  uint64_t Reclaim() override { return counters_.frames_sent(); }
  size_t Receive(std::span<InFrame> frames) override;
  void Release() override;
  WaitResult Wait(int64_t deadline_ns, WaitFor what) override;
  void Wake() override;
  // The ring outlives the endpoint: a node that connects again gets the same.
  std::vector<std::span<const std::byte>> ReceiveMemory() const override {
    return {place_.ring->memory()};
  }

 private:
  // What one call of Send adds to the counters.
  struct Tally {
    uint64_t bytes = 0, transmissions = 0, unreachable = 0;
  };

  // How many of the frames, all to one node, were accepted.
  size_t SendTo(NodeId node, std::span<const OutFrame> frames, Tally* tally);
  bool SendToAll(const OutFrame& frame, Tally* tally);
  // The beginning of `frames` that can be sent as one run: to the same node and not
  // too long.
  static size_t Run(std::span<const OutFrame> frames, size_t max_frame_bytes);
  void SetFull(NodeId node, bool full);
  void RingLater(NodeId node);
  void RingReceivers();
  void GiveBack(NodeId node);  // one credit
  // Whether a queue that refused a frame has room; else asks to be told.
  bool RoomAppeared();

  std::shared_ptr<LoopbackHub::State> hub_;
  LoopbackPlace& place_;
  std::atomic<bool> woken_{false};
  std::vector<bool> full_;  // by node: refused a frame, and no room was seen since
  size_t full_count_ = 0;   // of them set
  // Their capacities are those of all nodes from the start.
  std::vector<NodeId> credited_;  // receivers that have room for the multicast being sent
  std::vector<NodeId> to_ring_;   // receivers of the batch being sent
  std::vector<bool> will_ring_;   // by node: is in to_ring_
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_LOOPBACK_ENDPOINT_H_
