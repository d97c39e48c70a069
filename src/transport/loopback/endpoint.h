// The two parts of the loopback transport: the hub's shared state with one place per node, and
// the endpoint that a node's thread calls.
#ifndef MILLRACE_TRANSPORT_LOOPBACK_ENDPOINT_H_
#define MILLRACE_TRANSPORT_LOOPBACK_ENDPOINT_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/doorbell.h"
#include "transport/frame_ring.h"
#include "transport/loopback/transport.h"

namespace millrace::inline transport {

// A node's receive queue and the doorbell of its thread.
struct LoopbackPlace {
  // Created by the first Connect and kept, since a sender may still copy into it when the
  // endpoint is destroyed.
  std::unique_ptr<FrameRing> ring;
  std::atomic<bool> open{false};  // set after `ring` is created; cleared with the endpoint
  Doorbell bell;
  // A sender waits for room in this queue.
  std::atomic<bool> wanted{false};
};

class LoopbackHub::State {
 public:
  explicit State(const LoopbackOptions& options) : options(options), places(options.nodes) {}

  // If a sender waits for room in the queue of `place`, wakes all nodes.
  void AnnounceRoom(LoopbackPlace* place);
  // Drops all frames in the queue of `place`. Requires that `place` is not open.
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
  // The ring outlives the endpoint: a node that connects again gets the same ring.
  std::vector<std::span<const std::byte>> ReceiveMemory() const override {
    return {place_.ring->memory()};
  }

 private:
  // Contribution of one Send call to the counters.
  struct Tally {
    uint64_t bytes = 0, transmissions = 0, unreachable = 0;
  };

  // Returns how many leading frames were accepted. All frames have the destination `node`.
  size_t SendTo(NodeId node, std::span<const OutFrame> frames, Tally* tally);
  bool SendToAll(const OutFrame& frame, Tally* tally);
  // Length of the leading run of frames to one node, none of them too long.
  static size_t Run(std::span<const OutFrame> frames, size_t max_frame_bytes);
  void SetFull(NodeId node, bool full);
  void RingLater(NodeId node);
  void RingReceivers();
  void GiveBack(NodeId node);  // one credit
  // Returns whether a queue that refused a frame has room. Otherwise requests a wake-up.
  bool RoomAppeared();

  std::shared_ptr<LoopbackHub::State> hub_;
  LoopbackPlace& place_;
  std::atomic<bool> woken_{false};
  std::vector<bool> full_;  // by node: refused a frame and has had no room since
  size_t full_count_ = 0;   // number of entries set
  // The capacity of these vectors is reserved for all nodes at construction.
  std::vector<NodeId> credited_;  // receivers of the current multicast whose credit was taken
  std::vector<NodeId> to_ring_;   // receivers of the current batch
  std::vector<bool> will_ring_;   // by node: is in to_ring_
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_LOOPBACK_ENDPOINT_H_
