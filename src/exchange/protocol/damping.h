// How much of its progress a worker may add at once, so that nodes which see each other's steps
// late do not overshoot together. docs/exchange.md derives it.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_DAMPING_H_
#define MILLRACE_EXCHANGE_PROTOCOL_DAMPING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace millrace {

// Iterations of the whole cluster between two takes of a chunk up to which exchanges are fresh:
// all progress is added, as if there were no damping.
inline constexpr double kFreshIterations = 4;
// All that the members of a segment add to a weight in one round is at most so many times one
// member's progress, however stale it is.
inline constexpr double kStaleGain = 1.25;

// The share of its progress, over 0 and at most 1, that a worker takes of a chunk whose last take
// was `iterations` of the whole cluster ago, in a segment of `members` (at least 1).
inline float DampedShare(double iterations, size_t members) {
  if (iterations <= kFreshIterations || members < 2) return 1;
  const double fresh = kFreshIterations / iterations;
  const double least = (kStaleGain - 1) / static_cast<double>(members - 1);
  return static_cast<float>(least + (1 - least) * fresh * fresh * fresh);
}

// How far training had come: in iterations.
struct TrainingClock {
  uint64_t cluster = 0;  // of all members, as far as this node has heard
  uint64_t own = 0;
  size_t members = 1;
};

// What a worker remembers of a chunk for that.
class TakeDelay {
 public:
  // Progress has been taken, or there is none.
  void Took(const TrainingClock& now) {
    cluster_ = static_cast<uint32_t>(now.cluster);
    own_ = static_cast<uint32_t>(now.own);
  }
  // The share that may be taken now; 0: nothing has been trained since progress was held back,
  // so more of it would be added without a gradient that has seen the rest.
  float Share(const TrainingClock& now) {
    const double passed = PassedAt(now);
    if (passed == 0 && iterations_ > kFreshIterations) return 0;
    // One short pause between long ones does not make an exchange fresh.
    iterations_ = static_cast<float>(std::max(passed, kKept * iterations_));
    return Last(now.members);
  }
  // The same where training has ended.
  float ShareAtEnd(const TrainingClock& now) {
    iterations_ = std::max(static_cast<float>(PassedAt(now)), iterations_);
    return Last(now.members);
  }
  // What Share or ShareAtEnd has returned.
  float Last(size_t members) const { return DampedShare(iterations_, members); }
  void Forget() { iterations_ = 0; }
  // Training has ended, and the share of what the weights of this version hold was taken.
  void TookLast(uint64_t version) { last_ = static_cast<uint32_t>(version + 1); }
  bool HasTakenLast(uint64_t version) const { return last_ == static_cast<uint32_t>(version + 1); }

 private:
  static constexpr double kKept = 0.75;

  // Iterations of the cluster since progress was taken last. Others go on meanwhile, as quickly as
  // this node for all that it knows.
  double PassedAt(const TrainingClock& now) const {
    const uint32_t heard = static_cast<uint32_t>(now.cluster) - cluster_;
    const uint32_t own = static_cast<uint32_t>(now.own) - own_;
    return std::max<double>(heard, static_cast<double>(own) * static_cast<double>(now.members));
  }

  uint32_t cluster_ = 0, own_ = 0;  // the lower halves
  uint32_t last_ = 0;               // of the version, and one; 0: none
  float iterations_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_DAMPING_H_
