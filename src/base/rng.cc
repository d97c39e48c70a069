#include "base/rng.h"

#include <cmath>
#include <numbers>

namespace millrace {
namespace {

// Finaliser of MurmurHash3 (Appleby): spreads a stream name over 64 bits.
uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return x;
}

}  // namespace

std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * c0;
    const uint64_t p1 = uint64_t{kMultiplier1} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {c0, c1, c2, c3};
}

Rng::Rng(uint64_t seed, std::initializer_list<uint64_t> names) : key_(Mix(seed + 1)) {
  for (uint64_t name : names) key_ = Mix(key_ * 0x9e3779b97f4a7c15ULL + name + 1);
}

uint32_t Rng::Next() {
  if (used_ == 4) {
    block_ = Philox(key_, counter_++, 0);
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t Rng::Next64() {
  const uint64_t high = Next();
  return high << 32 | Next();
}

float Rng::Uniform() { return static_cast<float>(Next() >> 8) * 0x1p-24f; }

uint64_t Rng::Below(uint64_t n) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Next64()) * n) >> 64);
}

float Rng::Gaussian() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double u = (static_cast<double>(Next()) + 1.0) * 0x1p-32;  // (0, 1]
  const double v = static_cast<double>(Next()) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  const double angle = 2.0 * std::numbers::pi * v;
  spare_ = static_cast<float>(radius * std::sin(angle));
  has_spare_ = true;
  return static_cast<float>(radius * std::cos(angle));
}

}  // namespace millrace
