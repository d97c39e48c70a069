// One direction of a faulty transport: copies frames in, decides about each, and passes them on
// when they are due. All memory is allocated at construction. Not thread-safe, except counts().
#ifndef MILLRACE_TRANSPORT_FAULTY_FAULT_QUEUE_H_
#define MILLRACE_TRANSPORT_FAULTY_FAULT_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/device.h"
#include "transport/faulty/fault_plan.h"

namespace millrace::inline transport {

class FaultQueue {
 public:
  struct Held {
    std::byte* data = nullptr;
    size_t bytes = 0;
    NodeId peer = 0;            // destination or source
    int64_t due_ns = 0;         // pass at this time at the latest
    uint64_t after_taken = 0;   // pass once this many frames were taken
    FaultDecision decision;     // .duplicate: a second copy still follows
    bool fan_out = false;       // a multicast that is sent to each peer separately
    size_t fan_next = 0;        // index of the next peer
    uint64_t inner_number = 0;  // number of its last copy in the inner transport
    std::span<const std::byte> view() const { return {data, bytes}; }
  };

  // The queue has `groups` times plan.hold_frames slots. `plan` outlives the queue.
  FaultQueue(const FaultPlan& plan, Direction direction, const TransportInfo& info, size_t groups);

  // Slots in use, for frames to or from this peer; and free slots.
  size_t InUse(NodeId peer) const { return in_use_[Index(peer)]; }
  size_t FreeSlots() const { return free_.size(); }

  // Copies the frame into a slot, unless it is cut or dropped. Requires a free slot.
  void Take(NodeId peer, const OutFrame& frame, bool cut, int64_t now_ns);

  // Calls pass(held) for each frame that is due, oldest first; its result says how to proceed. A
  // second copy of a passed frame may follow later. After the last copy, Poll calls last(slot),
  // and the slot stays in use until Free(slot).
  enum class Outcome { kPassed, kCut, kNotNow, kStop };
  template <typename Pass, typename Last>
  void Poll(int64_t now_ns, Pass pass, Last last);
  bool HasReady(int64_t now_ns) const;
  void Free(uint32_t slot);
  // Memory of all slots.
  std::span<const std::byte> memory() const { return {memory_.get<std::byte>(), memory_.bytes()}; }
  const Held& held(uint32_t slot) const { return slots_[slot]; }

  // When the next frame that is not ready is due; INT64_MAX: none.
  int64_t NextDueNs(int64_t now_ns) const;
  const FaultCounts& counts() const { return counts_; }

 private:
  static void Count(std::atomic<uint64_t>* count) {
    count->store(count->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  size_t Index(NodeId peer) const { return peer == kAllNodes ? in_use_.size() - 1 : peer; }
  bool IsReady(const Held& held, int64_t now_ns) const {
    return taken_ >= held.after_taken || now_ns >= held.due_ns;
  }
  void Schedule(Held* held, int64_t now_ns);
  // Returns whether a second copy follows, and schedules it.
  bool ScheduleCopy(Held* held, int64_t now_ns);

  const FaultPlan& plan_;
  const Direction direction_;
  Rng rng_;
  size_t stride_;
  Buffer memory_;
  std::vector<Held> slots_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> waiting_;  // slots in the order in which they were taken
  std::vector<size_t> in_use_;     // slots in use, by peer; the last entry is for kAllNodes
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
        keep = ScheduleCopy(&held, now_ns);
        if (!keep) last(slot);
      }
    }
    if (keep) waiting_[kept++] = slot;
  }
  waiting_.resize(kept);
}

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_FAULTY_FAULT_QUEUE_H_
