// A transport that misbehaves as a network may: decorates any other, and drops,
// duplicates, reorders, delays, truncates and corrupts frames by a FaultPlan, in
// both directions, or cuts peers off. The same plan, clock readings and sequence
// of calls (of this endpoint and of its peers) give the same faults.
//
// It copies every frame that passes, into memory allocated when it is made, so it
// takes what the caller sends at once and gives out buffers of its own; a frame
// that the inner transport has no room for is kept and tried again in each later
// call, and counts as held. A peer with hold_frames frames held is busy.
#ifndef MILLRACE_TRANSPORT_FAULTY_TRANSPORT_H_
#define MILLRACE_TRANSPORT_FAULTY_TRANSPORT_H_

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "transport/faulty/fault_queue.h"
#include "transport/transport.h"

namespace millrace {

// Registered as "faulty": option over names the transport to decorate, which gets
// all options but these: seed, delay_min_us, delay_max_us, reorder_frames,
// hold_frames, and FAULT, DIRECTION.FAULT or DIRECTION.PEER.FAULT with FAULT one
// of drop, duplicate, reorder, delay, truncate, corrupt, and DIRECTION one of
// send, receive; the more precise of two counts (send.3.drop=0.1).
class FaultyTransport : public Transport {
 public:
  // Throws Error if the plan is not valid. Its clock must be that of `inner`.
  FaultyTransport(std::unique_ptr<Transport> inner, const FaultPlan& plan);

  // The inner transport first: until then it may read the lanes' memory.
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

  // From now on nothing passes to and from that peer (a multicast goes to each of
  // the others), or everything again. Any thread.
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
  // Passes to the inner transport what is due and what it has room for.
  void PumpSend(int64_t now_ns);
  FaultQueue::Outcome PassToInner(FaultQueue::Held* held);
  FaultQueue::Outcome FanOut(FaultQueue::Held* held);
  FaultQueue::Outcome SendInner(NodeId to, FaultQueue::Held* held);
  // Takes from the inner transport what there is room for.
  void PumpReceive(int64_t now_ns);
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
  std::vector<NodeId> refused_;      // destinations whose frames met kBusy; room for all
  bool send_stuck_ = false;          // the inner transport was busy
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_FAULTY_TRANSPORT_H_
