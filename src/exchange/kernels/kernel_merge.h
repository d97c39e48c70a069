// How a master merges diffs in a kernel (kernel_body.h), and the arrays of the chunk that an
// operation is on.
#ifndef MILLRACE_EXCHANGE_KERNELS_KERNEL_MERGE_H_
#define MILLRACE_EXCHANGE_KERNELS_KERNEL_MERGE_H_

#include "base/host_device.h"
#include "exchange/kernels/alignment.h"
#include "exchange/kernels/kernel_op.h"
#include "exchange/kernels/kernel_stage.h"
#include "exchange/kernels/rules/merge_rule.h"

namespace millrace::inline exchange {

template <typename Team, typename Rule>
class KernelMerge : protected KernelStage<Team> {
 protected:
  using Stage = KernelStage<Team>;
  using Stage::Bits;
  using Stage::CheckPayload;
  using Stage::Offsets;
  using Stage::Payload;
  using Stage::Staged;
  using Stage::team_;

  MILLRACE_HOST_DEVICE KernelMerge(const KernelBatch& batch, const Rule& rule, Team& team)
      : Stage(team), batch_(batch), rule_(rule) {}

  // The floats of state of the chunk's elements.
  struct States {
    float* floats;
    int64_t stride;

    MILLRACE_HOST_DEVICE void Load(int64_t i, float* state) const {
      for (int k = 0; k < Rule::kStateFloats; ++k) state[k] = floats[k * stride + i];
    }
    MILLRACE_HOST_DEVICE void Store(int64_t i, const float* state) const {
      for (int k = 0; k < Rule::kStateFloats; ++k) floats[k * stride + i] = state[k];
    }
  };
  MILLRACE_HOST_DEVICE States StatesOf() const { return {state_, batch_.state_stride}; }

  // Loads a weight that solvers change concurrently. volatile prevents a repeated load.
  static MILLRACE_HOST_DEVICE float Live(const float* w) {
    return *static_cast<const volatile float*>(w);
  }

  MILLRACE_HOST_DEVICE void Merge(KernelOp& op) {
    op.result = CheckPayload(op, op.codec);
    if (op.result != 0) return;
    const float* const values = Staged();
    const std::byte* const payload = Payload();
    switch (op.codec) {
      case Codec::kFloat32:
        return MergeEach(op, [=](int64_t i) { return values[i]; });
      case Codec::kBfloat16:
        return MergeEach(op, [=](int64_t i) {
          return Bfloat16Value(reinterpret_cast<const uint16_t*>(payload)[i]);
        });
      case Codec::kInt8:
        return MergeEach(op, [=](int64_t i) {
          const auto level = static_cast<int8_t>(payload[kInt8ScaleBytes + i]);
          return values[0] * static_cast<float>(level);
        });
      case Codec::kSparse:
        return MergeSparse(op);
      case Codec::kInt4:
        return MergeEach(
            op, [=, count = int64_t{op.count}](int64_t i) { return Int4Value(payload, count, i); });
    }
  }

  MILLRACE_HOST_DEVICE void MergeSparse(const KernelOp& op) {
    const KernelWord *const bits = Bits(op), *const offsets = Offsets(op);
    const float* const values = Staged() + words_;
    const auto value = [=](int64_t i) {
      const uint32_t word = bits[i / 32], bit = 1u << i % 32;
      return word & bit ? values[offsets[i / 32] + CountBits(word & (bit - 1))] : 0.0f;
    };
    if constexpr (!Rule::kZeroChangesNothing) return MergeEach(op, value);
    const Merged to = MergedArrays();
    const Rule rule = Merging(rule_, op.share);
    const uint32_t staleness = op.staleness;
    team_.ForEach(op.count, [=](int64_t i) {
      if (bits[i / 32] >> i % 32 & 1) MergeOne(rule, to, value(i), staleness, i);
    });
  }

  template <typename Value>
  MILLRACE_HOST_DEVICE void MergeEach(const KernelOp& op, Value value) {
    const Merged to = MergedArrays();
    const Rule rule = MergingRule(op, value);
    const uint32_t staleness = op.staleness;
    team_.ForEach(op.count, [=](int64_t i) { MergeOne(rule, to, value(i), staleness, i); });
  }

  // The rule that merges a diff of these values.
  template <typename Value>
  MILLRACE_HOST_DEVICE Rule MergingRule(const KernelOp& op, [[maybe_unused]] Value value) {
    const Rule rule = Merging(rule_, op.share);
    if constexpr (kAligns<Rule>) {
      static_assert(!Rule::kZeroChangesNothing);
      auto* const sums = reinterpret_cast<AlignmentSums*>(team_.stage() + StageSumsAt(op.count));
      const float* const state = state_;
      const uint32_t count = op.count;
      team_.ForEach(kAlignmentLanes, [=](int64_t lane) {
        float ds = 0, dd = 0, ss = 0;
        for (int64_t i = lane; i < count; i += kAlignmentLanes) {
          const float d = value(i), s = state[i];
          ds += d * s;
          dd += d * d;
          ss += s * s;
        }
        sums->ds[lane] = ds;
        sums->dd[lane] = dd;
        sums->ss[lane] = ss;
      });
      return AlignedBy(rule, *sums);
    }
    return rule;
  }

  // The arrays that a merge changes.
  struct Merged {
    float *w, *base;
    States states;
  };
  MILLRACE_HOST_DEVICE Merged MergedArrays() const { return {w_, base_, StatesOf()}; }

  // Apply() with the state of element i.
  static MILLRACE_HOST_DEVICE float Applied(const Rule& rule, States states, float before, float d,
                                            uint32_t staleness, int64_t i) {
    float state[kStateRoom<Rule>] = {};
    states.Load(i, state);
    const float merged = rule.Apply(before, d, state, staleness);
    states.Store(i, state);
    return merged;
  }

  static MILLRACE_HOST_DEVICE void MergeOne(const Rule& rule, const Merged& to, float d,
                                            uint32_t staleness, int64_t i) {
    const float live = Live(to.w + i);
    const float before = kMergesOwn<Rule> ? to.base[i] : live;
    const float merged = Applied(rule, to.states, before, d, staleness, i);
    if constexpr (kMergesOwn<Rule>) {
      to.w[i] = live == before ? merged : live + (merged - before);
      to.base[i] = merged;
    } else {
      to.w[i] = merged;
    }
  }

  MILLRACE_HOST_DEVICE void MergeOwn(KernelOp& op) {
    float *const w = w_, *const base = base_, *const pending = pending_;
    const States states = StatesOf();
    const Rule rule = Merging(rule_, op.share);
    auto* const out = reinterpret_cast<float*>(op.out);
    team_.ForEach(op.count, [=](int64_t i) {
      const float live = Live(w + i), before = base[i] - pending[i], u = live - before;
      const bool is_finite = Magnitude(u) < kInfinityBits;
      const float merged = Applied(rule, states, before, is_finite ? u : 0.0f, 0, i);
      w[i] = is_finite ? merged : live;
      base[i] = merged;
      pending[i] = 0;
      if (out != nullptr) out[i] = merged;
    });
    op.out_bytes = out ? MinPayloadBytes(Codec::kFloat32, op.count) : 0;
  }

  const KernelBatch& batch_;
  const Rule& rule_;
  // Arrays of the current operation's chunk.
  float *w_ = nullptr, *base_ = nullptr, *pending_ = nullptr, *state_ = nullptr;
  uint32_t words_ = 0;
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_KERNEL_MERGE_H_
