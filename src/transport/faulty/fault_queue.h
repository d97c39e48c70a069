// One direction of a faulty transport: copies frames in, decides about each, and passes them on
// when they are due. All memory is allocated at construction. Not thread-safe, except counts().
#ifndef MILLRACE_TRANSPORT_FAULTY_FAULT_QUEUE_H_
#define MILLRACE_TRANSPORT_FAULTY_FAULT_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/rng.h"
#include "millrace/device.h"
#include "millrace/transport.h"

namespace millrace::inline transport {

// Faults that the faulty transport injects: probabilities by direction and peer, and the decision
// for each frame, drawn from a seed.

enum class Direction : uint8_t { kSend, kReceive };

// Independent probabilities, each in [0, 1].
struct FaultRates {
  double drop = 0;
  double duplicate = 0;  // a second copy follows after later frames or a delay
  double reorder = 0;    // held until some later frames have passed, at most delay_max_ns
  double delay = 0;      // held for a random time; takes precedence over reorder
  double truncate = 0;   // cut to a random shorter length, possibly 0
  double corrupt = 0;    // 1 to 8 bits of one byte flipped
};

struct FaultPlan {
  uint64_t seed = 1;
  // Rates by direction; the `*_peer` entry of a peer replaces them. Outgoing multicasts use the
  // entry of kAllNodes.
  FaultRates send, receive;
  std::map<NodeId, FaultRates> send_peer, receive_peer;
  // How long a delayed frame is held: uniform in [min, max], nanoseconds of `clock`.
  int64_t delay_min_ns = 0, delay_max_ns = 1'000'000;
  // A reordered frame is overtaken by 1 to this many later frames.
  int64_t reorder_frames = 8;
  // Capacity for held frames, per peer and direction.
  int64_t hold_frames = 64;
  const Clock* clock = &DefaultClock();  // the clock of the decorated transport

  const FaultRates& Rates(Direction direction, NodeId peer) const;
  // Throws Error that names the first field out of range.
  void Validate() const;
};

// The faults of one frame.
struct FaultDecision {
  bool drop = false, duplicate = false, reorder = false, delay = false;
  bool truncate = false, corrupt = false;
  int64_t delay_ns = 0;
  uint64_t pass_frames = 0;  // reordered or duplicated: pass after this many later frames
  uint64_t length = 0;       // truncated: to this many bytes
  uint64_t position = 0;     // corrupted: index of the byte ...
  uint8_t mask = 0;          // ... and the bits to flip
};

// Always draws the same number of random values, so that the fate of a frame does not depend on
// that of others. `bytes` is the length of the frame; an empty frame is neither truncated nor
// corrupted.
FaultDecision Decide(const FaultPlan& plan, const FaultRates& rates, uint64_t bytes, Rng* rng);

// Counters of one direction; any thread may read them. Invariant once no frame is held:
//
//   taken + duplicated = dropped + cut + passed
struct FaultCounts {
  std::atomic<uint64_t> taken{0};    // frames that Take decided about
  std::atomic<uint64_t> passed{0};   // frames and second copies passed on
  std::atomic<uint64_t> altered{0};  // of `passed`: truncated or corrupted
  // Decisions that took effect.
  std::atomic<uint64_t> dropped{0}, duplicated{0}, reordered{0}, delayed{0};
  std::atomic<uint64_t> truncated{0}, corrupted{0};
  // Dropped because the peer was partitioned. A multicast to other peers counts in `passed`.
  std::atomic<uint64_t> cut{0};
};

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
