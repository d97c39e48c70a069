// One direction of a faulty transport: takes copies of frames, decides about
// each, and gives them back when their time has come. Bounded: all its memory is
// allocated when it is made. One thread; counts() from any.
#ifndef MILLRACE_TRANSPORT_FAULTY_FAULT_QUEUE_H_
#define MILLRACE_TRANSPORT_FAULTY_FAULT_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "transport/faulty/fault_plan.h"

namespace millrace {

class FaultQueue {
 public:
  struct Held {
    std::byte* data = nullptr;
    size_t bytes = 0;
    NodeId peer = 0;            // where it goes to, or came from
    int64_t due_ns = 0;         // passed on then at the latest
    uint64_t after_taken = 0;   // passed on once so many were taken
    FaultDecision decision;     // duplicate: a second copy is still to follow
    bool fan_out = false;       // a multicast that is being sent to each peer
    size_t fan_next = 0;        // index of the peer that is next
    uint64_t inner_number = 0;  // of its last copy, as the inner transport counts
    std::span<const std::byte> view() const { return {data, bytes}; }
  };

  // `groups` is how many kinds of peer have hold_frames slots of their own.
  FaultQueue(const FaultPlan& plan, Direction direction, const TransportInfo& info, size_t groups);

  // Frames of this peer that are held or in use; and of all peers.
  size_t InUse(NodeId peer) const { return in_use_[Index(peer)]; }
  size_t FreeSlots() const { return free_.size(); }

  // Copies the frame, unless it is to be dropped. There must be a free slot.
  void Take(NodeId peer, const OutFrame& frame, bool cut, int64_t now_ns);

  // Calls pass(held) for each frame whose time has come, oldest first. It returns
  // what became of it. Of a frame that was passed a second copy may follow later;
  // after the last, last(slot) is called and the slot is in use until Free(slot).
  enum class Outcome { kPassed, kCut, kNotNow, kStop };
  template <typename Pass, typename Last>
  void Poll(int64_t now_ns, Pass pass, Last last);
  bool HasReady(int64_t now_ns) const;
  void Free(uint32_t slot);
  // What frames lie in.
  std::span<const std::byte> memory() const { return {memory_.get<std::byte>(), memory_.bytes()}; }
  const Held& held(uint32_t slot) const { return slots_[slot]; }

  // When the next frame that has to wait is due; INT64_MAX if none has to.
  int64_t NextDueNs(int64_t now_ns) const;
  const FaultCounts& counts() const { return counts_; }
  void CountCutFromMulticast() { Count(&counts_.cut_from_multicast); }

 private:
  static void Count(std::atomic<uint64_t>* count) {
    count->store(count->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  size_t Index(NodeId peer) const { return peer == kAllNodes ? in_use_.size() - 1 : peer; }
  bool IsReady(const Held& held, int64_t now_ns) const {
    return taken_ >= held.after_taken || now_ns >= held.due_ns;
  }
  void Schedule(Held* held, int64_t now_ns);
  // Whether a copy is still to follow; schedules it.
  bool CopyPassed(Held* held, int64_t now_ns);

  const FaultPlan& plan_;
  const Direction direction_;
  Rng rng_;
  size_t stride_;
  Buffer memory_;
  std::vector<Held> slots_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> waiting_;  // slots in the order in which they were taken
  std::vector<size_t> in_use_;     // slots, by peer; the last is for kAllNodes
  uint64_t taken_ = 0;
  FaultCounts counts_;
};

template <typename Pass, typename Last>
void FaultQueue::Poll(int64_t now_ns, Pass pass, Last last) {
  size_t kept = 0, i = 0;
  bool stopped = false;
  for (; i < waiting_.size(); ++i) {
    const uint32_t slot = waiting_[i];
    Held& held = slots_[slot];
    bool keep = true;
    if (!stopped && IsReady(held, now_ns)) {
      const Outcome outcome = pass(&held);
      stopped = outcome == Outcome::kStop;
      if (outcome == Outcome::kCut) {
        Count(&counts_.cut);
        Free(slot);
        keep = false;
      } else if (outcome == Outcome::kPassed) {
        keep = CopyPassed(&held, now_ns);
        if (!keep) last(slot);
      }
    }
    if (keep) waiting_[kept++] = slot;
  }
  waiting_.resize(kept);
}

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_FAULTY_FAULT_QUEUE_H_
