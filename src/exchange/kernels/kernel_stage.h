// The stage of a team of lanes (kernel_body.h): payloads that are copied to it and checked, and
// diffs that are encoded from it.
#ifndef MILLRACE_EXCHANGE_KERNELS_KERNEL_STAGE_H_
#define MILLRACE_EXCHANGE_KERNELS_KERNEL_STAGE_H_

#include "base/host_device.h"
#include "exchange/kernels/kernel_op.h"

namespace millrace::inline exchange {

// Population count of a bitmap word.
MILLRACE_HOST_DEVICE uint32_t CountBits(uint32_t x) {
  x = x - ((x >> 1) & 0x55555555u);
  x = (x & 0x33333333u) + ((x >> 2) & 0x33333333u);
  return (((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u) >> 24;
}

// A word of memory that is also accessed as other types.
typedef uint32_t KernelWord __attribute__((may_alias));

// A payload, or a diff as floats; behind it a bitmap and offsets.
template <typename Team>
class KernelStage {
 public:
  explicit MILLRACE_HOST_DEVICE KernelStage(Team& team) : team_(team) {}

  MILLRACE_HOST_DEVICE std::byte* Payload() const { return team_.stage(); }
  MILLRACE_HOST_DEVICE float* Staged() const { return reinterpret_cast<float*>(team_.stage()); }
  MILLRACE_HOST_DEVICE KernelWord* Bits(const KernelOp& op) const {
    return reinterpret_cast<KernelWord*>(team_.stage() + StageWordsAt(op.count));
  }
  MILLRACE_HOST_DEVICE KernelWord* Offsets(const KernelOp& op) const {
    return Bits(op) + SparseWords(op.count);
  }

  MILLRACE_HOST_DEVICE void StageIn(const KernelOp& op) {
    const auto* from = reinterpret_cast<const KernelWord*>(op.in);
    auto* to = reinterpret_cast<KernelWord*>(Payload());
    const uint32_t words = op.in_bytes / 4, rest = op.in_bytes % 4;
    team_.ForEach(words + rest, [=, in = op.in, stage = Payload()](int64_t i) {
      if (i < words) {
        to[i] = from[i];
      } else {
        const uint32_t at = 4 * words + static_cast<uint32_t>(i - words);
        stage[at] = in[at];
      }
    });
  }

  MILLRACE_HOST_DEVICE bool AllFinite(const float* values, uint32_t count) {
    return team_.Max(count, [=](int64_t i) { return Magnitude(values[i]); }) < kInfinityBits;
  }

  MILLRACE_HOST_DEVICE bool StagesPosition(KernelOp& op) {
    op.result = CheckPayload(op, Codec::kFloat32);
    if (op.result != 0) op.out_bytes = 0;
    return op.result == 0;
  }

  // Copies the payload to the stage and validates it. Returns 0, kMalformed or kNonFinite.
  MILLRACE_HOST_DEVICE uint8_t CheckPayload(const KernelOp& op, Codec codec) {
    const uint32_t least = MinPayloadBytes(codec, op.count);
    const bool sparse = codec == Codec::kSparse;
    if (sparse ? op.in_bytes < least || op.in_bytes > least + 4 * op.count
               : op.in_bytes != least || codec > Codec::kInt4) {
      return kMalformed;
    }
    StageIn(op);
    switch (codec) {
      case Codec::kFloat32:
        return AllFinite(Staged(), op.count) ? 0 : kNonFinite;
      case Codec::kBfloat16: {
        const auto* halves = reinterpret_cast<const uint16_t*>(Payload());
        const int32_t largest =
            team_.Max(op.count, [=](int64_t i) { return Magnitude(Bfloat16Value(halves[i])); });
        return largest < kInfinityBits ? 0 : kNonFinite;
      }
      case Codec::kInt8:
        return Int8ScaleIsSafe(*Staged()) ? 0 : kNonFinite;
      case Codec::kSparse:
        return CheckSparse(op);
      case Codec::kInt4:
        return CheckInt4(op);
    }
    return kMalformed;
  }

  MILLRACE_HOST_DEVICE uint8_t CheckInt4(const KernelOp& op) {
    const auto* scales = reinterpret_cast<const uint16_t*>(Payload());
    const bool bad = team_.Or(Int4Scales(op.count), [=](int64_t block) {
      return uint32_t{!Int4ScaleIsSafe(Bfloat16Value(scales[block]))};
    });
    return bad ? kNonFinite : 0;
  }

  MILLRACE_HOST_DEVICE uint8_t CheckSparse(const KernelOp& op) {
    const auto* bitmap = reinterpret_cast<const KernelWord*>(Payload());
    KernelWord* const bits = Bits(op);
    const uint32_t words = SparseWords(op.count);
    const uint32_t present = team_.Scan(
        words,
        [=](int64_t i) {
          bits[i] = bitmap[i];
          return CountBits(bitmap[i]);
        },
        Offsets(op));
    const uint32_t odd = op.count % 32;
    if (odd != 0 && bits[words - 1] >> odd != 0) return kMalformed;
    if (op.in_bytes != 4 * (words + present)) return kMalformed;
    return AllFinite(Staged() + words, present) ? 0 : kNonFinite;
  }

  // Encodes the diffs on the stage as op.codec into op.out, which may be null for float32.
  MILLRACE_HOST_DEVICE void Encode(KernelOp& op) {
    op.out_codec = op.codec;
    op.out_bytes = MinPayloadBytes(op.codec, op.count);
    const float* const d = Staged();
    std::byte* const out = op.out;
    if (op.codec == Codec::kBfloat16) {
      auto* const halves = reinterpret_cast<uint16_t*>(out);
      team_.ForEach(op.count, [=](int64_t i) { halves[i] = Bfloat16Half(d[i]); });
    } else if (op.codec == Codec::kInt8) {
      const Int8Codec codec{op.scale};
      auto* const levels = reinterpret_cast<int8_t*>(out + kInt8ScaleBytes);
      team_.Once([=] { *reinterpret_cast<float*>(out) = codec.scale; });
      team_.ForEach(op.count,
                    [=](int64_t i) { levels[i] = static_cast<int8_t>(codec.Level(d[i])); });
    } else if (op.codec == Codec::kInt4) {
      const int64_t count = op.count, blocks = Int4Scales(count);
      auto* const scales = reinterpret_cast<uint16_t*>(out);
      team_.ForEach(blocks, [=](int64_t block) {
        const int64_t begin = kInt4Block * block;
        const int64_t size = begin + kInt4Block < count ? kInt4Block : count - begin;
        const float scale = Int4ScaleOf(d + begin, size);
        scales[block] = Bfloat16Half(scale);
        WriteInt4Block(d + begin, size, scale, out + 2 * blocks + begin / 2);
      });
    } else if (op.codec == Codec::kFloat32 || !EncodeSparse(op)) {
      op.out_codec = Codec::kFloat32;
      op.out_bytes = out == nullptr ? 0 : MinPayloadBytes(Codec::kFloat32, op.count);
      if (out == nullptr) return;
      auto* const floats = reinterpret_cast<float*>(out);
      team_.ForEach(op.count, [=](int64_t i) { floats[i] = d[i]; });
    }
  }

  // Returns false if the sparse payload would not be shorter than a dense one.
  MILLRACE_HOST_DEVICE bool EncodeSparse(KernelOp& op) {
    const float* const d = Staged();
    KernelWord *const bits = Bits(op), *const offsets = Offsets(op);
    const uint32_t count = op.count, words = SparseWords(op.count);
    const uint32_t present = team_.Scan(
        words,
        [=](int64_t word) {
          uint32_t found = 0;
          // Each lane starts at a different element, to avoid shared-memory bank conflicts.
          for (uint32_t step = 0; step < 32; ++step) {
            const auto bit = (step + static_cast<uint32_t>(word)) % 32;
            const int64_t i = 32 * word + bit;
            if (i < count && d[i] != 0) found |= 1u << bit;
          }
          bits[word] = found;
          return CountBits(found);
        },
        offsets);
    const uint32_t bytes = 4 * (words + present);
    if (bytes >= 4 * count) return false;
    auto* const bitmap = reinterpret_cast<KernelWord*>(op.out);
    auto* const values = reinterpret_cast<float*>(op.out) + words;
    team_.ForEach(words, [=](int64_t word) { bitmap[word] = bits[word]; });
    team_.ForEach(count, [=](int64_t i) {
      const uint32_t word = bits[i / 32], bit = 1u << i % 32;
      if (word & bit) values[offsets[i / 32] + CountBits(word & (bit - 1))] = d[i];
    });
    op.out_bytes = bytes;
    return true;
  }

 protected:
  Team& team_;
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_KERNEL_STAGE_H_
