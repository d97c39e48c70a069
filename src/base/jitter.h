// Deterministic jitter for retransmission pauses. Without it, nodes that start together keep
// sending together, and the same frames overflow the same queue again.
#ifndef MILLRACE_BASE_JITTER_H_
#define MILLRACE_BASE_JITTER_H_

#include <cstdint>

namespace millrace::inline base {

// Finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
// 2014). Every bit of the result depends on every bit of x.
inline uint64_t MixBits(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Returns a duration from `ns` to 1.5 * `ns`, determined by `node` and `count`.
inline int64_t Spread(int64_t ns, uint64_t node, uint64_t count) {
  const uint64_t bits = MixBits((node << 40 ^ count) * 0x9e3779b97f4a7c15);
  return ns + (ns >> 9) * static_cast<int64_t>(bits & 0xff);
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_JITTER_H_
