#include "base/rng.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"

namespace millrace::inline base {
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
  std::array<uint32_t, 4> words;
  PhiloxBlock(key, counter_low, counter_high, words.data());
  return words;
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

}  // namespace millrace::inline base
