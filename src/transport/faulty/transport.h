// Decorates another transport with the faults of a network: drops, duplicates, reorders, delays,
// truncates and corrupts frames by a FaultPlan, in both directions, and partitions peers. The
// same plan, clock readings and sequence of calls (of this endpoint and its peers) give the same
// faults.
//
// Every frame is copied into memory allocated at construction: Send copies, and received frames
// lie in buffers of this transport. If the inner transport has no room for a frame, the frame
// stays held and each later call tries it again. Send is busy for a peer with hold_frames frames
// held.
#ifndef MILLRACE_TRANSPORT_FAULTY_TRANSPORT_H_
#define MILLRACE_TRANSPORT_FAULTY_TRANSPORT_H_

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "millrace/transport.h"
#include "transport/faulty/fault_queue.h"

namespace millrace {
struct TransportConfig;
}
namespace millrace::inline transport {

class FaultyTransport : public Transport {
 public:
  // Throws Error if the plan is invalid. The plan's clock must be that of `inner`.
  FaultyTransport(std::unique_ptr<Transport> inner, const FaultPlan& plan);

  // Destroys the inner transport first: it may still read the memory of the queues.
  ~FaultyTransport() override { inner_.reset(); }

  SendResult Send(std::span<const OutFrame> frames) override;
  uint64_t Reclaim() override;
  size_t Receive(std::span<InFrame> frames) override;
  void Release() override;
  WaitResult Wait(int64_t deadline_ns, WaitFor what) override;
  void Wake() override { inner_->Wake(); }
  std::vector<std::span<const std::byte>> ReceiveMemory() const override {
    return {receive_.memory()};
  }
  std::string SetPeerAddress(NodeId peer, const std::string& address) override {
    return inner_->SetPeerAddress(peer, address);
  }

  // While `cut`, drops all frames to and from the peer; multicasts go to each other peer
  // separately. Any thread.
  void Partition(NodeId peer, bool cut);

  // Any thread.
  const FaultCounts& faults(Direction direction) const {
    return direction == Direction::kSend ? send_.counts() : receive_.counts();
  }
  const Transport& inner() const { return *inner_; }

 private:
  bool IsCut(NodeId peer) const {
    return peer < cut_.size() && cut_[peer].load(std::memory_order_relaxed);
  }
  // Passes to the inner transport the frames that are due, as far as it has room.
  void PollSend(int64_t now_ns);
  FaultQueue::Outcome PassToInner(FaultQueue::Held* held);
  FaultQueue::Outcome FanOut(FaultQueue::Held* held);
  FaultQueue::Outcome SendInner(NodeId to, FaultQueue::Held* held);
  // Takes frames from the inner transport while slots are free.
  void PollReceive(int64_t now_ns);
  bool Full(NodeId peer) const {
    return send_.InUse(peer) >= static_cast<size_t>(plan_.hold_frames);
  }
  bool RoomAppeared();

  static constexpr size_t kBatch = 32;

  const FaultPlan plan_;
  std::unique_ptr<Transport> inner_;
  FaultQueue send_, receive_;
  std::vector<std::atomic<bool>> cut_;  // by peer
  std::atomic<int> cut_count_{0};
  std::vector<uint32_t> in_flight_;  // slots of send_ that the inner transport reads
  std::vector<uint32_t> lent_;       // slots of receive_ that the caller reads
  std::vector<NodeId> refused_;      // destinations that Send was busy for; capacity for all
  bool send_stuck_ = false;          // the inner transport was busy
};

// Creates a FaultyTransport. Option `over` names the inner transport, which gets all options except
// seed, delay_min_us, delay_max_us, reorder_frames, hold_frames and the rates. A rate is FAULT,
// DIRECTION.FAULT or DIRECTION.PEER.FAULT; FAULT is drop, duplicate, reorder, delay, truncate or
// corrupt, DIRECTION is send or receive. The most specific rate applies (send.3.drop=0.1). Throws
// Error with one line that names the option.
std::unique_ptr<Transport> MakeFaulty(const TransportConfig& config);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_FAULTY_TRANSPORT_H_
