// Counter-based random numbers (base/philox.h). Each number is a pure function of a key and a
// counter. A stream is identified by integers (seed, layer, iteration, ...), so a run resumes bit
// for bit without saved generator state and threads never share a generator. Not thread-safe;
// construct one where needed.
#ifndef MILLRACE_BASE_RNG_H_
#define MILLRACE_BASE_RNG_H_

#include <array>
#include <cstdint>
#include <initializer_list>

namespace millrace::inline base {

// One Philox4x32-10 block: 128 random bits per (key, counter).
std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

class Rng {
 public:
  // The stream identified by `names`, e.g. Rng(seed, {kRngDropout, layer, iteration}).
  Rng(uint64_t seed, std::initializer_list<uint64_t> names);

  uint32_t Next();
  uint64_t Next64();
  // Uniform in [0, 1) with 24 bits of resolution.
  float Uniform();
  // Uniform in {0, ..., n-1}; n > 0. The bias is below n / 2^64.
  uint64_t Below(uint64_t n);
  // Standard normal (Box and Muller, 1958).
  float Gaussian();

  // UniformRandomBitGenerator, for std::shuffle and the like.
  using result_type = uint32_t;
  static constexpr uint32_t min() { return 0; }
  static constexpr uint32_t max() { return UINT32_MAX; }
  uint32_t operator()() { return Next(); }

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
  bool has_spare_ = false;
  float spare_ = 0;
};

// Purpose of a stream: the first name of each stream.
enum RngPurpose : uint64_t {
  kRngFiller = 1,
  kRngDropout = 2,
  kRngTransform = 3,
  kRngShuffle = 4,
  kRngDummyData = 5,
  kRngSkip = 6,
  kRngPooling = 7,
  kRngAugment = 8,
};

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_RNG_H_
