// The elements of a chunk that a sparse diff has by SparseChoice::kTop and kRandom: those with the
// largest keys. With kTop a key is |selected|, with kRandom a pseudo-random number; elements that
// have nothing to send have 0. Of equal keys the first elements are chosen, so a choice depends on
// keys alone, and is the same on all processors. Top-k: Aji, Heafield: "Sparse Communication for
// Distributed Gradient Descent", EMNLP 2017. Random shares: Baioumy, Cheraghi: "SPARTA", 2025.
#ifndef MILLRACE_EXCHANGE_KERNELS_SPARSE_CHOICE_H_
#define MILLRACE_EXCHANGE_KERNELS_SPARSE_CHOICE_H_

#include <cstdint>

#include "base/host_device.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/kernels/codec.h"

namespace millrace::inline exchange {

// Memory of a float as an integer.
typedef int32_t ChoiceWord __attribute__((may_alias));

// Elements that are chosen of `count` that all have something to send: `share` of them, rounded up,
// at least 1. A product that is above an integer by rounding alone is that integer.
MILLRACE_HOST_DEVICE int64_t ChosenCount(double share, int64_t count) {
  const double exact = share * static_cast<double>(count);
  auto chosen = static_cast<int64_t>(exact);
  if (exact - static_cast<double>(chosen) > 1e-6) ++chosen;
  return chosen < 1 ? 1 : chosen < count ? chosen : count;
}

// Mixes 32 bits; a bijection ("lowbias32", Chris Wellons: "Prospecting for Hash Functions", 2018).
MILLRACE_HOST_DEVICE uint32_t MixBits(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// The seed of take number `round` of a chunk by an executor.
MILLRACE_HOST_DEVICE uint32_t ChoiceSeed(uint32_t chunk, uint32_t round) {
  return MixBits(chunk + MixBits(round + 0x9e3779b9u));
}

// Key of an element with this |selected|, as a bit pattern that is not negative.
MILLRACE_HOST_DEVICE int32_t ChoiceKey(SparseChoice choice, uint32_t seed, int64_t element,
                                       int32_t magnitude) {
  if (choice != SparseChoice::kRandom || magnitude == 0) return magnitude;
  const uint32_t key = MixBits(seed ^ MixBits(static_cast<uint32_t>(element) + 0x85ebca6bu));
  return static_cast<int32_t>(key & kMagnitudeBits) | 1;
}

// Host: replaces the magnitudes of the selected values (0: nothing to send) of `count` elements by
// -1 for chosen elements and 0 for others. Takes time O(count). Returns the number chosen, at most
// ChosenCount(share, count).
int64_t ChooseElements(SparseChoice choice, double share, uint32_t seed, int64_t count,
                       ChoiceWord* magnitudes);

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_SPARSE_CHOICE_H_
