// A test replica whose arrays lie between guards at addresses with minimum alignment.
#ifndef MILLRACE_TEST_EXCHANGE_REPLICA_H_
#define MILLRACE_TEST_EXCHANGE_REPLICA_H_

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/rng.h"
#include "base/simd.h"
#include "exchange/kernels/chunk_op.h"
#include "millrace/merge_rule.h"

namespace millrace::test {

inline std::vector<Simd> SupportedSimd() {
  std::vector<Simd> all;
  for (Simd simd : {Simd::kBaseline, Simd::kAvx2, Simd::kAvx512}) {
    if (SimdSupported(simd)) all.push_back(simd);
  }
  return all;
}

inline constexpr Codec kAllCodecs[] = {Codec::kFloat32, Codec::kBfloat16, Codec::kInt8,
                                       Codec::kInt4, Codec::kSparse};

// Each codec with parameters by which it sends some elements of Gaussian progress.
inline constexpr CodecConfig kAllCodecConfigs[] = {{Codec::kFloat32},
                                                   {Codec::kBfloat16},
                                                   {Codec::kInt8},
                                                   {Codec::kInt4},
                                                   {Codec::kSparse, 0.8f},
                                                   {Codec::kSparse, 0, SparseChoice::kTop, 0.3},
                                                   {Codec::kSparse, 0, SparseChoice::kRandom, 0.3}};

// Memory whose first byte is aligned to a float and no more, between guards that Intact()
// checks.
class Guarded {
 public:
  explicit Guarded(int64_t bytes) : bytes_(bytes), memory_(bytes + 2 * kGuard + 64, kFill) {
    shift_ = kGuard;
    while ((reinterpret_cast<uintptr_t>(memory_.data()) + shift_) % 64 != 4) ++shift_;
  }
  std::byte* data() { return memory_.data() + shift_; }
  const std::byte* data() const { return memory_.data() + shift_; }
  float* floats() { return reinterpret_cast<float*>(data()); }
  int64_t bytes() const { return bytes_; }
  // Returns true if the guards are unchanged; with `from`, also all bytes from that offset on.
  bool Intact(int64_t from = -1) const {
    const int64_t end = shift_ + (from < 0 ? bytes_ : from);
    for (int64_t i = 0; i < static_cast<int64_t>(memory_.size()); ++i) {
      if ((i < shift_ || i >= end) && memory_[i] != kFill) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kGuard = 64;
  static constexpr std::byte kFill{0xa5};
  int64_t bytes_, shift_;
  std::vector<std::byte> memory_;
};

struct Replica {
  Replica(int64_t size, int64_t chunk_floats)
      : weights(4 * size),
        base(4 * size),
        pending(4 * size),
        rule_state(4 * kMaxStateFloats * size) {
    arrays = {weights.floats(),    base.floats(), pending.floats(),
              rule_state.floats(), size,          chunk_floats};
    memset(weights.data(), 0, 4 * size);
    memset(base.data(), 0, 4 * size);
    memset(pending.data(), 0, 4 * size);
    memset(rule_state.data(), 0, rule_state.bytes());
  }
  Replica(const Replica&) = delete;

  void CopyFrom(const Replica& other) {
    memcpy(weights.data(), other.weights.data(), weights.bytes());
    memcpy(base.data(), other.base.data(), weights.bytes());
    memcpy(pending.data(), other.pending.data(), weights.bytes());
    memcpy(rule_state.data(), other.rule_state.data(), rule_state.bytes());
  }
  bool Equals(const Replica& other) const {
    return memcmp(weights.data(), other.weights.data(), weights.bytes()) == 0 &&
           memcmp(base.data(), other.base.data(), weights.bytes()) == 0 &&
           memcmp(pending.data(), other.pending.data(), weights.bytes()) == 0 &&
           memcmp(rule_state.data(), other.rule_state.data(), rule_state.bytes()) == 0;
  }
  bool GuardsIntact() const {
    return weights.Intact() && base.Intact() && pending.Intact() && rule_state.Intact();
  }

  Guarded weights, base, pending, rule_state;
  ReplicaArrays arrays;
};

// Values of all usual magnitudes, and some rare ones.
inline float AnyValue(Rng* rng) {
  switch (rng->Below(8)) {
    case 0:
      return 0;
    case 1:
      return rng->Gaussian() * 1e-41f;
    case 2:
      return rng->Gaussian() * 1e20f;
    case 3:
      return static_cast<float>(static_cast<int>(rng->Below(9)) - 4);
    default:
      return rng->Gaussian();
  }
}

// Moves the weights away from their base by about `step`; no diff is pending.
inline void Scatter(Replica* replica, float step, Rng* rng) {
  for (int64_t i = 0; i < replica->arrays.size; ++i) {
    replica->arrays.base[i] = rng->Gaussian();
    replica->arrays.weights[i] =
        replica->arrays.base[i] + (rng->Below(5) == 0 ? 0 : step * rng->Gaussian());
    replica->arrays.pending[i] = 0;
  }
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_EXCHANGE_REPLICA_H_
