// Random numbers as a pure function of a key and a counter: Philox4x32-10
// (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3",
// SC'11). A stream is named by integers (seed, layer, iteration, ...), so no
// generator state has to be saved for a run to be resumed bit for bit, and no
// two threads ever share one. Not thread-safe; make one where it is needed.
#ifndef MILLRACE_BASE_RNG_H_
#define MILLRACE_BASE_RNG_H_

#include <array>
#include <cstdint>
#include <initializer_list>

namespace millrace {

// One Philox4x32-10 block: 128 random bits for each (key, counter).
std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

class Rng {
 public:
  // The stream named by `names`, e.g. Rng(seed, {kDropout, layer, iteration}).
  Rng(uint64_t seed, std::initializer_list<uint64_t> names);

  uint32_t Next();
  uint64_t Next64();
  // Uniform in [0, 1), 24 bits.
  float Uniform();
  // Uniform in {0, ..., n-1}; n > 0. The bias is below n / 2^64.
  uint64_t Below(uint64_t n);
  // Standard normal (Box and Muller, 1958).
  float Gaussian();

  // For std::shuffle and the like.
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

// What streams are used for: the first name of each stream.
enum RngPurpose : uint64_t {
  kRngFiller = 1,
  kRngDropout = 2,
  kRngTransform = 3,
  kRngShuffle = 4,
  kRngDummyData = 5,
  kRngSkip = 6,
};

}  // namespace millrace

#endif  // MILLRACE_BASE_RNG_H_
