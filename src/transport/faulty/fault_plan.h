// Faults that the faulty transport injects: probabilities by direction and peer, and the decision
// for each frame, drawn from a seed.
#ifndef MILLRACE_TRANSPORT_FAULTY_FAULT_PLAN_H_
#define MILLRACE_TRANSPORT_FAULTY_FAULT_PLAN_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/rng.h"
#include "millrace/transport.h"

namespace millrace::inline transport {

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

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_FAULTY_FAULT_PLAN_H_
