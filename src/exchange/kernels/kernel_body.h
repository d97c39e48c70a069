// Executes chains of operations (kernel_op.h), one after the other, in a kernel, on any processor.
// It uses the element functions of the host executor (codec.h, merge_rule.h), so results are
// identical bit by bit, except for the payload bits of a NaN weight.
//
// The code is written for a team of lanes, such as a GPU thread block:
//   team.ForEach(n, step)   calls step(i) for each i in [0, n), on any lane, in any order
//   team.Max(n, value)      the largest value(i), which must be >= 0; 0 if n is 0
//   team.Or(n, value)       bitwise OR of all value(i)
//   team.Scan(n, value, to) to[i] = the sum of value(j) for j < i; returns the total
//   team.Once(step)         calls step() on one lane after all lanes have arrived, so it may
//                           overwrite data that other lanes read before
//   team.stage()            scratch of StageBytes() for the largest chunk, 16-byte aligned
// Each call except stage() ends with a barrier, after which all lanes see all writes. n and the
// returned value are the same on all lanes, so all lanes take the same branches.
//
// A payload is copied to the stage and validated there before anything is written. It is read once,
// because it may lie across a bus. Each weight is read once, right before it is written; taking an
// int8 diff reads it once more before that, to find the scale.
#ifndef MILLRACE_EXCHANGE_KERNELS_KERNEL_BODY_H_
#define MILLRACE_EXCHANGE_KERNELS_KERNEL_BODY_H_

#include "base/host_device.h"
#include "exchange/kernels/kernel_merge.h"
#include "exchange/kernels/kernel_op.h"
#include "exchange/kernels/rules/merge_rule.h"
#include "exchange/kernels/sparse_choice.h"

namespace millrace::inline exchange {

// Wraps FromBits: nvcc 13.0 fails with an internal error if FromBits is called with an argument
// that depends on template parameters.
MILLRACE_HOST_DEVICE float FloatOfMagnitude(int32_t magnitude) {
  return FromBits<float>(magnitude);
}

template <typename Team, typename Rule>
class KernelBody : KernelMerge<Team, Rule> {
  using Base = KernelMerge<Team, Rule>;

 public:
  MILLRACE_HOST_DEVICE KernelBody(const KernelBatch& batch, const Rule& rule, Team& team)
      : Base(batch, rule, team) {}

  // The part of block `block` of the batch's blocks(): every blocks()-th chain.
  MILLRACE_HOST_DEVICE void RunBlock(uint32_t block, uint32_t blocks) {
    for (uint32_t i = block; i < batch_.chain_count; i += blocks) RunChain(batch_.chains[i]);
  }

 private:
  using Base::base_;
  using Base::batch_;
  using Base::Bits;
  using Base::Encode;
  using Base::Live;
  using Base::Merge;
  using Base::MergeOwn;
  using Base::Offsets;
  using Base::pending_;
  using Base::rule_;
  using Base::Staged;
  using Base::StagesPosition;
  using Base::state_;
  using Base::StatesOf;
  using Base::team_;
  using Base::w_;
  using Base::words_;
  using typename Base::States;

  enum Flag : uint32_t { kTaken = 1, kRemains = 2 };
  enum class Pending { kTaken, kCleared, kHeld };

  MILLRACE_HOST_DEVICE void RunChain(uint32_t first) {
    for (uint32_t index = first; index != kNoOp;) {
      KernelOp op = batch_.ops[index];
      w_ = From(batch_.weights, op.begin);
      base_ = From(batch_.base, op.begin);
      pending_ = From(batch_.pending, op.begin);
      state_ = From(batch_.rule_state, op.begin);
      words_ = SparseWords(op.count);
      op.result = 0;
      RunOne(op);
      KernelOp* const result = &batch_.ops[index];
      team_.Once([&] {
        result->result = op.result;
        result->out_codec = op.out_codec;
        result->out_bytes = op.out_bytes;
        result->scale = op.scale;
      });
      index = op.next;
    }
  }

  static MILLRACE_HOST_DEVICE float* From(float* array, int64_t begin) {
    return array ? array + begin : nullptr;
  }

  MILLRACE_HOST_DEVICE void RunOne(KernelOp& op) {
    switch (op.kind) {
      case ChunkOpKind::kRead:
        return CopyOut(
            op, [=](const float* w, const float*, const float*, int64_t i) { return Live(w + i); });
      case ChunkOpKind::kReturn:
        return CopyOut(op, [=](const float*, const float* base, const float* pending, int64_t i) {
          return base[i] - pending[i];
        });
      case ChunkOpKind::kExchange:
        if (!StagesPosition(op)) return;
        if (op.take) return Take(op, Staged());
        return op.acknowledged ? Move<Pending::kCleared>(op, Float32Codec{}, Staged())
                               : Move<Pending::kHeld>(op, Float32Codec{}, Staged());
      case ChunkOpKind::kTake:
        return Take(op, base_);
      case ChunkOpKind::kEncodePending:
        return EncodePending(op);
      case ChunkOpKind::kMerge:
        return Merge(op);
      case ChunkOpKind::kMergeOwn:
        if constexpr (kMergesOwn<Rule>) MergeOwn(op);
        return;
      case ChunkOpKind::kTakeBack:
        TakeBack(op);
        return ClearState(op);
      case ChunkOpKind::kLoad:
        if (!StagesPosition(op)) return;
        Reset(op, Staged());
        return ClearState(op);
      case ChunkOpKind::kDemote:
        Reset(op, nullptr);
        return ClearState(op);
      case ChunkOpKind::kDropRest:
        return Reset(op, base_);
    }
  }

  // ---- Worker operations.

  // The selected value for progress u: 0 if it has no finite d.
  static MILLRACE_HOST_DEVICE float Selected(const Rule& rule, float share, float u,
                                             int32_t overflow) {
    const float selected = share * rule.Select(u);
    return Magnitude(selected) < overflow ? selected : 0.0f;
  }

  // The part of u that stays when d of the share is sent. What is withheld for damping stays as it
  // is.
  static MILLRACE_HOST_DEVICE float Remains(const Rule& rule, float share, float u, float d) {
    if constexpr (kChangesUnsent<Rule>) {
      const float offered = share * u;
      if (share != 1) return rule.Residual(offered, d) + (u - offered);
    }
    return rule.Residual(u, d);
  }

  // The progress of which a diff is taken when the base of element i moves to `position`. `kTakes`:
  // it is taken now, and the rule's state changes.
  template <bool kTakes = false>
  static MILLRACE_HOST_DEVICE float MovedProgress(const Rule& rule, float w, float base,
                                                  float position, [[maybe_unused]] States states,
                                                  [[maybe_unused]] int64_t i) {
    if constexpr (kCompensates<Rule>) {
      float state[kStateRoom<Rule>] = {};
      states.Load(i, state);
      const float compensated = rule.Compensate(w - base, position - base, state);
      if constexpr (kTakes) states.Store(i, state);
      return compensated;
    }
    return w - base;
  }

  // The largest magnitude, below `overflow`, of all values selected at a position.
  MILLRACE_HOST_DEVICE float LargestSelected(const KernelOp& op, const float* position,
                                             int32_t overflow) {
    const float *const w = w_, *const base = base_;
    const Rule rule = rule_;
    const States states = StatesOf();
    const float share = op.share;
    const int32_t largest = team_.Max(op.count, [=](int64_t i) {
      const float u = MovedProgress(rule, Live(w + i), base[i], position[i], states, i);
      const float selected = Selected(rule, share, u, overflow);
      return Magnitude(selected);
    });
    return FloatOfMagnitude(largest);
  }

  MILLRACE_HOST_DEVICE void Take(KernelOp& op, const float* position) {
    if (op.codec == Codec::kFloat32) {
      Move<Pending::kTaken>(op, Float32Codec{}, position);
    } else if (op.codec == Codec::kBfloat16) {
      Move<Pending::kTaken>(op, Bfloat16Codec{}, position);
    } else if (op.codec == Codec::kInt8) {
      op.scale = Int8Scale(LargestSelected(op, position, Int8Codec::overflow()));
      Move<Pending::kTaken>(op, Int8Codec{op.scale}, position);
    } else if (op.codec == Codec::kInt4) {
      FindInt4Scales(op, position);
      Move<Pending::kTaken>(op, Int4Blocks{reinterpret_cast<const float*>(Bits(op))}, position);
    } else if (batch_.codec.choice != SparseChoice::kThreshold) {
      if (!Choose(op, position) && kChangesUnsent<Rule>) return MoveOnly(op, position);
      Move<Pending::kTaken>(op, ChosenCodec{Bits(op)}, position);
    } else {
      const float threshold = batch_.codec.threshold;
      if constexpr (kChangesUnsent<Rule>) {
        if (LargestSelected(op, position, kInfinityBits) < threshold) {
          return MoveOnly(op, position);
        }
      }
      Move<Pending::kTaken>(op, SparseCodec{threshold}, position);
    }
  }

  // Writes the scale of each block to Bits(), as a float.
  MILLRACE_HOST_DEVICE void FindInt4Scales(const KernelOp& op, const float* position) {
    const float *const w = w_, *const base = base_;
    auto* const scales = reinterpret_cast<float*>(Bits(op));
    const Rule rule = rule_;
    const States states = StatesOf();
    const float share = op.share;
    const int64_t count = op.count;
    team_.ForEach(Int4Scales(count), [=](int64_t block) {
      const int64_t begin = kInt4Block * block;
      float largest = 0;
      for (int64_t i = begin; i < begin + kInt4Block && i < count; ++i) {
        const float u = MovedProgress(rule, Live(w + i), base[i], position[i], states, i);
        const float size =
            FloatOfMagnitude(Magnitude(Selected(rule, share, u, Int4Codec::overflow())));
        largest = largest < size ? size : largest;
      }
      scales[block] = Int4Scale(largest);
    });
  }

  // Takes no diff; nothing is pending.
  MILLRACE_HOST_DEVICE void MoveOnly(KernelOp& op, const float* position) {
    Move<Pending::kCleared>(op, Float32Codec{}, position);
  }

  // Chooses the elements of a sparse diff as ChooseElements does: sets their bits in Bits(). Keeps
  // the keys in `pending`, which is free. Returns false if it has chosen none.
  MILLRACE_HOST_DEVICE bool Choose(const KernelOp& op, const float* position) {
    const float *const w = w_, *const base = base_;
    auto* const keys = reinterpret_cast<ChoiceWord*>(pending_);
    const Rule rule = rule_;
    const States states = StatesOf();
    const float share = op.share;
    const uint32_t seed = op.seed;
    const SparseChoice choice = batch_.codec.choice;
    team_.ForEach(op.count, [=](int64_t i) {
      const float u = MovedProgress(rule, Live(w + i), base[i], position[i], states, i);
      const float selected = Selected(rule, share, u, kInfinityBits);
      keys[i] = ChoiceKey(choice, seed, i, Magnitude(selected));
    });
    const int64_t most = ChosenCount(batch_.codec.share, op.count);
    // The largest key of which there are `most` or more that are as large; 0 if there is none.
    int32_t cut = 0;
    for (int bit = 30; bit >= 0; --bit) {
      const int32_t higher = cut | static_cast<int32_t>(1u << bit);
      if (CountKeys(op, [=](int64_t i) { return keys[i] >= higher; }) >= most) cut = higher;
    }
    const int64_t above = CountKeys(op, [=](int64_t i) { return keys[i] > cut; });
    CountKeys(op, [=](int64_t i) { return keys[i] == cut; });  // the ties before each word
    KernelWord *const bits = Bits(op), *const ties = Offsets(op);
    const uint32_t count = op.count;
    return team_.Or(words_, [=](int64_t word) {
      uint32_t found = 0;
      int64_t left = cut == 0 ? 0 : most - above - ties[word];
      for (uint32_t bit = 0; bit < 32; ++bit) {
        const int64_t i = 32 * word + bit;
        if (i >= count) break;
        const bool is_tie = keys[i] == cut && left > 0;
        left -= is_tie;
        if (keys[i] > cut || is_tie) found |= 1u << bit;
      }
      bits[word] = found;
      return found;
    }) != 0;
  }

  // Number of elements for which has(i) is true. Offsets() := the number before each word.
  template <typename Has>
  MILLRACE_HOST_DEVICE int64_t CountKeys(const KernelOp& op, Has has) {
    const uint32_t count = op.count;
    return team_.Scan(
        words_,
        [=](int64_t word) {
          uint32_t found = 0;
          for (int64_t i = 32 * word; i < 32 * word + 32 && i < count; ++i) found += has(i);
          return found;
        },
        Offsets(op));
  }

  // Int4Codec with the scales of all blocks.
  struct Int4Blocks {
    const float* scales;
    static MILLRACE_HOST_DEVICE constexpr int32_t overflow() { return Int4Codec::overflow(); }
  };
  // A sparse diff of the elements that have a bit.
  struct ChosenCodec {
    const KernelWord* bits;
    static MILLRACE_HOST_DEVICE constexpr int32_t overflow() { return kInfinityBits; }
  };
  template <typename ElementCodec>
  static MILLRACE_HOST_DEVICE float RoundOne(const ElementCodec& codec, float selected, int64_t) {
    return codec.Round(selected);
  }
  static MILLRACE_HOST_DEVICE float RoundOne(const Int4Blocks& codec, float selected, int64_t i) {
    return Int4Codec{codec.scales[i / kInt4Block]}.Round(selected);
  }
  static MILLRACE_HOST_DEVICE float RoundOne(const ChosenCodec& codec, float selected, int64_t i) {
    return codec.bits[i / 32] >> i % 32 & 1 ? selected : 0.0f;
  }

  // Writes d to the stage, in place of the same element of the position.
  template <Pending kPending, typename ElementCodec>
  MILLRACE_HOST_DEVICE void Move(KernelOp& op, const ElementCodec& codec, const float* position) {
    float *const w = w_, *const base = base_, *const pending = pending_, *const d_out = Staged();
    const Rule rule = rule_;
    const States states = StatesOf();
    const float share = op.share;
    const bool drop_rest = op.drop_rest;
    const uint32_t flags = team_.Or(op.count, [=](int64_t i) {
      const float pos = position[i];
      float d = 0, p = 0;
      if constexpr (kPending == Pending::kHeld) p = pending[i];
      const float live = Live(w + i);
      float rest = live - base[i];
      if constexpr (kPending == Pending::kTaken) {
        const float u = MovedProgress<true>(rule, live, base[i], pos, states, i);
        p = d = RoundOne(codec, Selected(rule, share, u, codec.overflow()), i);
        d_out[i] = d;
        rest = drop_rest ? 0.0f : Remains(rule, share, u, d);
      }
      const float new_base = pos + p;
      const float new_w = new_base + rest;
      w[i] = new_w;
      base[i] = new_base;
      if constexpr (kPending != Pending::kHeld) pending[i] = p;
      return uint32_t{Magnitude(d) != 0 ? kTaken : 0u} |
             uint32_t{Magnitude(new_w - new_base) != 0 ? kRemains : 0u};
    });
    op.result =
        static_cast<uint8_t>((flags & kTaken ? kNonZero : 0) | (flags & kRemains ? kRemainder : 0));
    op.out_codec = op.codec;
    op.out_bytes = 0;
    if (flags & kTaken) Encode(op);
  }

  MILLRACE_HOST_DEVICE void EncodePending(KernelOp& op) {
    const float* const pending = pending_;
    float* const d = Staged();
    team_.ForEach(op.count, [=](int64_t i) { d[i] = pending[i]; });
    Encode(op);
  }

  // ---- Operations of both.

  // base -= pending, pending := 0.
  MILLRACE_HOST_DEVICE void TakeBack(const KernelOp& op) {
    float *const base = base_, *const pending = pending_;
    team_.ForEach(op.count, [=](int64_t i) {
      base[i] -= pending[i];
      pending[i] = 0;
    });
  }

  // weights := base := position, or base := weights without one; pending := 0.
  MILLRACE_HOST_DEVICE void Reset(const KernelOp& op, const float* position) {
    float *const w = w_, *const base = base_, *const pending = pending_;
    team_.ForEach(op.count, [=](int64_t i) {
      const float value = position ? position[i] : Live(w + i);
      if (position) w[i] = value;
      base[i] = value;
      pending[i] = 0;
    });
  }

  MILLRACE_HOST_DEVICE void ClearState(const KernelOp& op) {
    for (int k = 0; k < Rule::kStateFloats; ++k) {
      float* const state = state_ + k * batch_.state_stride;
      team_.ForEach(op.count, [=](int64_t i) { state[i] = 0; });
    }
  }

  template <typename Value>
  MILLRACE_HOST_DEVICE void CopyOut(KernelOp& op, Value value) {
    const float *const w = w_, *const base = base_, *const pending = pending_;
    auto* const out = reinterpret_cast<float*>(op.out);
    team_.ForEach(op.count, [=](int64_t i) { out[i] = value(w, base, pending, i); });
    op.out_bytes = MinPayloadBytes(Codec::kFloat32, op.count);
  }
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_KERNEL_BODY_H_
