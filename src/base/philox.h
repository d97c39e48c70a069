// One block of the counter-based generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel
// Random Numbers: As Easy as 1, 2, 3", SC'11), for host and device.
#ifndef MILLRACE_BASE_PHILOX_H_
#define MILLRACE_BASE_PHILOX_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline base {

// Writes 128 random bits, a function of key and counter, to words[0] to words[3].
MILLRACE_HOST_DEVICE void PhiloxBlock(uint64_t key, uint64_t counter_low, uint64_t counter_high,
                                      uint32_t* words) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMultiplier0 * c0;
    const uint64_t p1 = kMultiplier1 * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_PHILOX_H_
