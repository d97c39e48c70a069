// Damping: limits the share of its progress that a worker sends at once, where nodes see each
// other's updates late, or are many. Without it, they overshoot together. Derivation:
// docs/exchange.md.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_DAMPING_H_
#define MILLRACE_EXCHANGE_PROTOCOL_DAMPING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace millrace::inline exchange {

// Cluster iterations between two takes of a chunk up to which all progress is taken: those of two
// nodes that exchange in each iteration.
inline constexpr double kAddedIterations = 2;
// Those up to which an exchange counts as fresh in messages and counters.
inline constexpr double kFreshIterations = 4;
// Limit, for large staleness, of the sum that all members of a segment add to a weight in one
// round, in multiples of one member's progress.
inline constexpr double kStaleGain = 1.25;

// Returns the share of its progress, in (0, 1], that a worker takes of a chunk. `iterations`:
// cluster iterations since the chunk's last take. `members`: members of the segment, at least 1.
inline float DampedShare(double iterations, size_t members) {
  if (iterations <= kAddedIterations || members < 2) return 1;
  const double added = kAddedIterations / iterations;
  const double cube = added * added * added, sixth = cube * cube;
  const double least = (kStaleGain - 1) / static_cast<double>(members - 1);
  return static_cast<float>(least + (1 - least) * sixth * sixth);
}

// Whether a share is smaller than those of fresh exchanges.
inline bool IsStaleShare(float share, size_t members) {
  return share < 1 && share < DampedShare(kFreshIterations, members);
}

// Progress of training at one moment, in iterations.
struct TrainingClock {
  uint64_t cluster = 0;  // of all members, as far as this node knows; may fall at a change of view
  uint64_t own = 0;      // of this node, those whose progress is in the weights
  size_t members = 1;
  // Solvers of this node train on copies of the weights, which they merge from time to time.
  bool on_copies = false;
};

// Iterations between two readings of a clock, of which the lower 32 bits are kept; 0 if the clock
// has fallen.
inline int32_t IterationsBetween(uint32_t then, uint64_t now) {
  return std::max(0, static_cast<int32_t>(static_cast<uint32_t>(now) - then));
}

// Staleness of one chunk at a worker.
class TakeDelay {
 public:
  // Records that progress was taken, or that there was none to take.
  void OnTaken(const TrainingClock& now) {
    cluster_ = static_cast<uint32_t>(now.cluster);
    own_ = static_cast<uint32_t>(now.own);
  }
  // Returns the share that may be taken now. Returns 0 if no iteration has passed since progress
  // was held back, or none of this node was merged where solvers train on copies: no gradient has
  // taken the held-back rest into account yet.
  float Share(const TrainingClock& now) {
    const double passed = PassedAt(now);
    const double seen = now.on_copies ? IterationsBetween(own_, now.own) : passed;
    if (seen == 0 && iterations_ > kAddedIterations) return 0;
    // A single short interval among long ones does not make an exchange fresh.
    iterations_ = static_cast<float>(std::max(passed, kKept * iterations_));
    return Last(now.members);
  }
  // The same after the end of training; never 0.
  float ShareAtEnd(const TrainingClock& now) {
    iterations_ = std::max(static_cast<float>(PassedAt(now)), iterations_);
    return Last(now.members);
  }
  // Returns the last share computed by Share (unless it returned 0) or ShareAtEnd.
  float Last(size_t members) const { return DampedShare(iterations_, members); }
  // Records that the chunk has no unsent progress and no history of takes: this node masters it no
  // longer.
  void Restart(const TrainingClock& now) {
    OnTaken(now);
    iterations_ = 0;
  }

 private:
  static constexpr double kKept = 0.75;  // part of the recorded staleness that a take keeps

  // Cluster iterations since the last take. Other members' clocks arrive late, so the estimate
  // assumes that they train at least as fast as this node.
  double PassedAt(const TrainingClock& now) const {
    return std::max<double>(IterationsBetween(cluster_, now.cluster),
                            IterationsBetween(own_, now.own) * static_cast<double>(now.members));
  }

  uint32_t cluster_ = 0, own_ = 0;  // clocks at the last take, lower 32 bits
  float iterations_ = 0;            // recorded staleness, in cluster iterations
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_DAMPING_H_
