// What the faulty transport does to frames, and how often: probabilities by
// direction and peer, and the decision for each frame, drawn from a seed.
#ifndef MILLRACE_TRANSPORT_FAULTY_FAULT_PLAN_H_
#define MILLRACE_TRANSPORT_FAULTY_FAULT_PLAN_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/rng.h"
#include "transport/transport.h"

namespace millrace {

enum class Direction : uint8_t { kSend, kReceive };

// Probabilities, each in [0, 1] and drawn independently.
struct FaultRates {
  double drop = 0;
  double duplicate = 0;  // a second copy follows, as late as a reordered frame
  double reorder = 0;    // held until some later frames have passed, or delay_max_ns
  double delay = 0;      // held for a time; a frame that is both is only delayed
  double truncate = 0;   // cut to a random shorter length, perhaps 0
  double corrupt = 0;    // 1 to 8 bits of one byte flipped
};

struct FaultPlan {
  uint64_t seed = 1;
  // By direction; `*_peer` in their place for a peer (a multicast that is sent
  // goes by kAllNodes).
  FaultRates send, receive;
  std::map<NodeId, FaultRates> send_peer, receive_peer;
  // How long a delayed frame is held: uniform, in the clock's nanoseconds.
  int64_t delay_min_ns = 0, delay_max_ns = 1'000'000;
  // How many later frames pass a reordered one: 1 to this many.
  int64_t reorder_frames = 8;
  // Room for frames being held: for each peer and direction.
  int64_t hold_frames = 64;
  const Clock* clock = &DefaultClock();  // the one that the decorated transport has

  const FaultRates& Rates(Direction direction, NodeId peer) const;
  // Throws Error naming the field if one is out of its range.
  void Validate() const;
};

// What happens to one frame.
struct FaultDecision {
  bool drop = false, duplicate = false, reorder = false, delay = false;
  bool truncate = false, corrupt = false;
  int64_t delay_ns = 0;
  uint64_t pass_frames = 0;  // reordered: this many go first
  uint64_t length = 0;       // truncated: to this many bytes
  uint64_t position = 0;     // corrupted: this byte ...
  uint8_t mask = 0;          // ... with these bits flipped
};

// Always draws the same amount, so that what happens to one frame does not depend
// on what happened to others. `bytes` is the length of the frame; an empty one is
// neither truncated nor corrupted.
FaultDecision Decide(const FaultPlan& plan, const FaultRates& rates, uint64_t bytes, Rng* rng);

// What was done in one direction; as readable as TransportCounters.
//   taken + duplicated = dropped + cut + passed, once nothing is held.
struct FaultCounts {
  std::atomic<uint64_t> taken{0};    // frames that were decided about
  std::atomic<uint64_t> passed{0};   // frames and second copies passed on
  std::atomic<uint64_t> altered{0};  // of them, truncated or corrupted
  // Decisions that took effect.
  std::atomic<uint64_t> dropped{0}, duplicated{0}, reordered{0}, delayed{0};
  std::atomic<uint64_t> truncated{0}, corrupted{0};
  std::atomic<uint64_t> cut{0};  // dropped because the peer was cut off
  // Peers that a multicast, which counts as passed, was not sent to for that reason.
  std::atomic<uint64_t> cut_from_multicast{0};
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_FAULTY_FAULT_PLAN_H_
