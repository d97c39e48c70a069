// What the exchange asks of memory: batches of operations on the chunks of one
// replica. The protocol decides which operations; an executor carries them out
// where the weights are: host_executor.h with vectors, a GPU with one kernel
// launch for a batch. All executors share one element function per codec and
// merge rule (codec.h, merge_rule.h), so that their results agree bit by bit.
//
// The algebra (docs/exchange.md), per element, for a worker end:
//   w        the live weights, which solvers change at any time
//   base     what this end knows of the master's chunk, its own `pending` included
//   pending  the diff that was sent and may not have been applied yet
//   u        = w - base: progress that was not sent yet
#ifndef MILLRACE_EXCHANGE_KERNELS_CHUNK_OP_H_
#define MILLRACE_EXCHANGE_KERNELS_CHUNK_OP_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/device.h"

namespace millrace {

// How a diff travels; the numbers are those of the wire format.
enum class Codec : uint8_t {
  kFloat32 = 0,   // 4 bytes an element
  kBfloat16 = 1,  // the upper half of a float32, rounded to nearest even; 2 bytes
  kInt8 = 2,      // float32 scale, then one signed byte an element: value = scale * byte
  kSparse = 3,    // bitmap of the elements present, then a float32 for each of them
};

// What a segment's diffs are encoded with, and the rule's constants.
struct CodecConfig {
  Codec codec = Codec::kFloat32;
  // kSparse: only elements with |u| >= threshold (> 0) travel, the rest stays in
  // u and accumulates.
  float threshold = 0;
};

// The memory of one replica, in one memory space; owned by whoever made it and
// alive as long as the executor. Each array has `size` floats, all laid out as
// the weights are; chunk i is [i * chunk_floats, min((i + 1) * chunk_floats, size)).
struct ReplicaArrays {
  float* weights = nullptr;
  float* base = nullptr;
  float* pending = nullptr;
  float* rule_state = nullptr;  // for merge rules that keep something; else null
  int64_t size = 0;
  int64_t chunk_floats = 0;

  int64_t chunks() const { return (size + chunk_floats - 1) / chunk_floats; }
  int64_t floats_of(uint32_t chunk) const {
    const int64_t begin = int64_t{chunk} * chunk_floats;
    return size - begin < chunk_floats ? size - begin : chunk_floats;
  }
};

enum class ChunkOpKind : uint8_t {
  // out := w (float32). What a master sends.
  kRead,
  // A worker takes a position `in` (float32 position `pos`). With
  //   p = acknowledged ? 0 : pending
  //   d = take ? codec(share * offer(u)) : 0  (take only if acknowledged or none pending)
  //   p' = take ? d : p
  // does
  //   base' = pos + p',   w' = base' + keep(u, d),   pending' = p'
  // For the additive rule offer(u) = u and keep(u, d) = u - d, so that
  // w' = w + (pos + p - base), and w' == base' bit by bit when nothing remains. With a share
  // of 1 it is as if there were none.
  // An element whose offer is not finite, or has no finite d in that codec, is not
  // taken: d = 0 there, it stays in w, and the others travel.
  // When the encoded d is all zero nothing is taken (kNonZero is not set).
  kExchange,
  // The same without a position: d = codec(share * offer(u)); base' = base + d;
  // w' = base' + keep(u, d); pending' = d. Only when nothing is pending.
  kTake,
  // out := encode(pending) as it was taken, from `codec` and `scale`; decodes to
  // exactly `pending`. What is sent again.
  kEncodePending,
  // A master merges a received diff: w := rule(w, decode(in)). Of kSparse and
  // a rule by which zero changes nothing (merge_rule.h), only elements present.
  kMerge,
  // A worker that has nothing of its own takes a position: w = base = pos, pending = 0.
  kLoad,
  // out := base - pending (float32): the master's chunk as this end last saw it.
  kReturn,
  // A master becomes a worker: base = w, pending = 0.
  kDemote,
};

// Bits of ChunkOp::result.
inline constexpr uint8_t kNonZero = 1;    // kExchange, kTake: a diff was taken
inline constexpr uint8_t kNonFinite = 2;  // `in` holds NaN or Inf: nothing was done
inline constexpr uint8_t kMalformed = 4;  // `in` is not a payload of that codec: nothing was done
inline constexpr uint8_t kRemainder = 8;  // kExchange, kTake: w' != base' somewhere after it
inline constexpr uint8_t kBusy = 16;      // a solver is in these weights: nothing was done
// Nothing was done, and nothing written.
inline constexpr uint8_t kRefused = kNonFinite | kMalformed | kBusy;

// Whether an operation stores to w, which loses what others store there meanwhile.
inline constexpr bool WritesWeights(ChunkOpKind kind) {
  return kind == ChunkOpKind::kExchange || kind == ChunkOpKind::kTake ||
         kind == ChunkOpKind::kMerge || kind == ChunkOpKind::kLoad;
}

// One operation. `in` and `out` are host memory, or whatever the executor's own
// space can reach, with the alignment of a float at least.
struct ChunkOp {
  ChunkOpKind kind = ChunkOpKind::kRead;
  // kExchange, kTake: how to encode. kMerge: how `in` is encoded. kEncodePending:
  // how it was encoded.
  Codec codec = Codec::kFloat32;
  bool acknowledged = false;  // kExchange
  bool take = false;          // kExchange
  uint8_t result = 0;         // set by the executor
  // kExchange, kTake: the codec that `out` is really encoded with: kFloat32 when a
  // sparse diff would take more bytes than a dense one.
  Codec out_codec = Codec::kFloat32;
  uint32_t chunk = 0;
  uint32_t in_bytes = 0;
  // Room before; after it, the bytes of the payload. The room behind these may have
  // been written, too.
  uint32_t out_bytes = 0;
  // kExchange, kTake: how much of what is offered travels, over 0 and at most 1 (damping.h).
  float share = 1;
  // kExchange, kTake: set to the scale of an int8 diff: that of the largest
  // offer that can travel. kEncodePending: that.
  float scale = 0;
  // kMerge: how many positions the master had sent since the one that this
  // diff was computed against (>= 0); for rules that damp stale diffs.
  uint32_t staleness = 0;
  const std::byte* in = nullptr;
  // May be null for a float32 diff: then the caller sends it from
  // ReplicaArrays::pending, which stays as it is until it is acknowledged.
  std::byte* out = nullptr;
};

// Carries out operations on one replica. Not thread-safe: one thread at a time,
// while solvers write the weights (and only these) from others.
class ChunkExecutor {
 public:
  virtual ~ChunkExecutor() = default;
  // In order, all of them; no chunk occurs twice in a batch with one exception:
  // any number of kMerge of one chunk. Sets result, out_bytes, out_codec, scale.
  virtual void Run(std::span<ChunkOp> ops) = 0;
  // Begins with `ops`. These, and the memory that they name, are the executor's until Finish()
  // has returned; what is started in between counts as one batch.
  virtual void Start(std::span<ChunkOp> ops) { Run(ops); }
  virtual void Finish() {}
  // Whether Start may return before all is done, so that there is something to do meanwhile.
  virtual bool is_async() const { return false; }
  // How many operations one call had better be given, if there are so many.
  virtual size_t batch_ops() const { return 64; }

  // Set-up. Memory for payloads that operations reach best; and: payloads will lie in `memory`,
  // which outlives the executor. Whether they are reached there, without a copy.
  virtual MemorySpace& payload_memory() { return HostMemory(); }
  virtual bool RegisterMemory(std::span<const std::byte> memory) {
    (void)memory;
    return true;
  }
  virtual const ReplicaArrays& arrays() const = 0;
};

// The room that a payload of `floats` elements needs at most, in any codec.
inline constexpr uint32_t MaxPayloadBytes(int64_t floats) {
  return static_cast<uint32_t>(floats < 2 ? 8 : 4 * floats);
}

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_CHUNK_OP_H_
