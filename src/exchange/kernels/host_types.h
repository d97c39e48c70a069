// Arguments of the host executor's loops (host_loops.h): a chunk, and payloads to write and to
// read. They are the same for all instruction sets.
#ifndef MILLRACE_EXCHANGE_KERNELS_HOST_TYPES_H_
#define MILLRACE_EXCHANGE_KERNELS_HOST_TYPES_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "exchange/kernels/codec.h"
#include "exchange/kernels/rules/merge_rule.h"

namespace millrace::inline exchange {

// Arrays of one chunk; each pointer refers to the chunk's first element.
struct ChunkSpan {
  float* weights;
  float* base;
  float* pending;
  float* rule_state;     // of the element's first float of state; the next is state_stride away
  int64_t state_stride;  // elements of the replica
  int64_t count;
};

// What happens to a worker's `pending`.
enum class Pending {
  kTaken,    // replaced by a new diff
  kCleared,  // acknowledged, and no new diff is taken
  kHeld,     // not acknowledged yet
};

struct MoveResult {
  bool taken = false;
  bool remainder = false;
};

// A rule of which only a share of Select(u) is sent (ChunkOp::share). What is withheld for damping
// stays as it is: kChangesUnsent applies to what the codec leaves of the share.
// The loops of a full share are
// compiled without it: the multiplication slows int8 takes from memory by 30 %
// (exchange_bench).
template <typename Rule>
struct DampedRule : Rule {
  DampedRule(const Rule& rule, float sent) : Rule(rule), share(sent) {}

  template <typename T>
  MILLRACE_HOST_DEVICE T Select(T u) const {
    return share * Rule::Select(u);
  }
  template <typename T>
  MILLRACE_HOST_DEVICE T Residual(T u, T d) const {
    if constexpr (!kChangesUnsent<Rule>) return Rule::Residual(u, d);
    const T offered = share * u;
    return Rule::Residual(offered, d) + (u - offered);
  }

  float share;
};

template <typename Rule>
DampedRule<Rule> Damped(const Rule& rule, float share) {
  return DampedRule<Rule>(rule, share);
}

// The same where the rest is dropped (ChunkOp::drop_rest).
template <typename Rule>
struct DroppingRule : DampedRule<Rule> {
  using DampedRule<Rule>::DampedRule;

  template <typename T>
  MILLRACE_HOST_DEVICE T Residual(T /*u*/, T /*d*/) const {
    return T{};
  }
};

template <typename Rule>
DroppingRule<Rule> Dropping(const Rule& rule, float share) {
  return DroppingRule<Rule>(rule, share);
}

// Payloads to write. Encode() (host_codecs-inl.h) rounds selected values, writes them and returns
// d. Elements come in order, each once. No address needs alignment.
struct Float32Encoder {
  float* out;  // may be null
  Float32Codec codec;
};
struct Bfloat16Encoder {
  std::byte* out;
  Bfloat16Codec codec;
};
struct Int8Encoder {
  std::byte* out;  // behind the scale
  Int8Codec codec;
};
// Rounds, and writes nothing.
struct Int4Rounder {
  const float* scales;  // of the blocks
  Int4Codec codec;      // for overflow(), which does not depend on a scale
};
// Writes nothing behind `room` bytes, but counts what would be there.
struct SparseEncoder {
  SparseEncoder(std::byte* to, int64_t room_bytes, int64_t count, float threshold)
      : out(to), room(room_bytes), at(SparseBitmapBytes(count)), codec{threshold} {
    std::memset(out, 0, at);  // vectors of fewer than 8 elements set bits of a byte
  }
  // Appends what Encode() has left. Call it after that, with all `count` diffs.
  void Finish(const float* diff, int64_t count) {
    for (int64_t i = appended / 32 * 32; i < count; i += 32) {
      uint32_t bits;
      std::memcpy(&bits, out + i / 8, sizeof(bits));
      if (i < appended) bits &= ~0u << (appended - i);
      for (; bits != 0; bits &= bits - 1, at += 4) {
        if (room - at >= 4) std::memcpy(out + at, diff + i + std::countr_zero(bits), 4);
      }
    }
  }
  std::byte* out;
  int64_t room;
  int64_t at;            // end of the payload
  int64_t appended = 0;  // elements that it has, if they are present
  SparseCodec codec;
};
// The same for the elements whose `mask` is -1; the others have 0. `mask` may be the array of
// pending diffs, of which each vector is stored after it was encoded.
struct ChosenEncoder : SparseEncoder {
  ChosenEncoder(std::byte* to, int64_t room_bytes, int64_t count, const float* chosen)
      : SparseEncoder(to, room_bytes, count, 0), mask(chosen) {}
  const float* mask;
};

// Checked payloads to read. Decode() (host_codecs-inl.h) returns d.
struct Float32Payload {
  explicit Float32Payload(const std::byte* in) : floats(reinterpret_cast<const float*>(in)) {}
  const float* floats;
};
struct Bfloat16Payload {
  explicit Bfloat16Payload(const std::byte* in) : halves(reinterpret_cast<const uint16_t*>(in)) {}
  const uint16_t* halves;
};
struct Int8Payload {
  explicit Int8Payload(const std::byte* in)
      : levels(reinterpret_cast<const int8_t*>(in + kInt8ScaleBytes)) {
    std::memcpy(&scale, in, sizeof(scale));
  }
  const int8_t* levels;
  float scale;
};
// The elements follow the bitmap.
struct SparsePayload {
  SparsePayload(const std::byte* in, uint32_t bytes, int64_t count)
      : bitmap(in),
        begin(reinterpret_cast<const float*>(in + SparseBitmapBytes(count))),
        end(reinterpret_cast<const float*>(in + bytes)) {}
  // The bits of the elements i to i + 31. i is a multiple of 32.
  uint32_t BitsAt(int64_t i) const {
    uint32_t bits;
    std::memcpy(&bits, bitmap + i / 8, sizeof(bits));
    return bits;
  }
  const std::byte* bitmap;
  const float *begin, *end;
};

// For each byte of a bitmap: the lanes of its present elements, in order.
inline constexpr auto kLanesOfBits = [] {
  std::array<std::array<uint8_t, 8>, 256> lanes{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    size_t present = 0;
    for (uint8_t lane = 0; lane < 8; ++lane) {
      if (bits >> lane & 1) lanes[bits][present++] = lane;
    }
  }
  return lanes;
}();

// For each byte of a bitmap: the index of each lane's element among the present ones. An absent
// lane has a value that remains negative when up to 8 is added.
inline constexpr auto kRanksOfBits = [] {
  std::array<std::array<int8_t, 8>, 256> ranks{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    int8_t rank = 0;
    for (int lane = 0; lane < 8; ++lane) {
      const bool present = (bits >> lane & 1) != 0;
      ranks[bits][lane] = present ? rank : -128;
      rank = static_cast<int8_t>(rank + present);
    }
  }
  return ranks;
}();

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_TYPES_H_
