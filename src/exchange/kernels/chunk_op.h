// Interface between the exchange protocol and memory: batches of operations on the chunks of one
// replica. The protocol chooses the operations. An executor performs them where the weights are: on
// the host with vectors (host_executor.h), on a GPU with one kernel launch per batch. All executors
// share one element function per codec and merge rule (codec.h, merge_rule.h), so their results are
// identical bit by bit.
//
// Per element, a worker keeps (docs/exchange.md):
//   w        the live weight, which solvers change at any time
//   base     the master's weight as known to this worker, including its own `pending`
//   pending  the diff that was sent and may not have been merged yet
//   u        w - base: the progress that has not been sent
#ifndef MILLRACE_EXCHANGE_KERNELS_CHUNK_OP_H_
#define MILLRACE_EXCHANGE_KERNELS_CHUNK_OP_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "millrace/device.h"

namespace millrace::inline exchange {

// Encoding of a diff or a position. The values are part of the wire format.
enum class Codec : uint8_t {
  kFloat32 = 0,   // 4 bytes per element
  kBfloat16 = 1,  // upper half of a float32, rounded to nearest even; 2 bytes per element
  kInt8 = 2,      // float32 scale, then one signed byte per element: value = scale * byte
  kSparse = 3,    // bitmap of the present elements, then one float32 for each of them
  kInt4 = 4,      // a scale for each 16 elements, then half a byte per element
};

// Which elements of a chunk a kSparse diff has. The rest stays in u and accumulates.
enum class SparseChoice : uint8_t {
  kThreshold,  // those with |selected| >= threshold; see kExchange
  kTop,        // the share with the largest |selected|
  kRandom,     // a pseudo-random share, another one in each diff
};

// Codec of a segment's diffs and its parameters. codec_config.h has their names.
struct CodecConfig {
  Codec codec = Codec::kFloat32;
  float threshold = 0;  // above 0 with kThreshold
  SparseChoice choice = SparseChoice::kThreshold;
  double share = 0;  // of the elements of a chunk, above 0 and at most 1, otherwise
};

// ExchangeConfig::position_share of positions that name none.
inline constexpr double kPositionShare = 0.03;

// Arrays of one replica, all in one memory space. The creator owns them; they must outlive the
// executor. Each array but rule_state has `size` floats in the layout of the weights. Chunk i is
// the range [i * chunk_floats, min((i + 1) * chunk_floats, size)).
struct ReplicaArrays {
  float* weights = nullptr;
  float* base = nullptr;
  float* pending = nullptr;
  // For merge rules with n floats of state: n * size floats, initially zero; float k of element i
  // is rule_state[k * size + i]. Otherwise null.
  float* rule_state = nullptr;
  int64_t size = 0;
  int64_t chunk_floats = 0;

  int64_t chunks() const { return (size + chunk_floats - 1) / chunk_floats; }
  int64_t floats_of(uint32_t chunk) const {
    const int64_t begin = int64_t{chunk} * chunk_floats;
    return size - begin < chunk_floats ? size - begin : chunk_floats;
  }
};

enum class ChunkOpKind : uint8_t {
  // out := w (float32). A master reads the payload of a position.
  kRead,
  // A worker applies a position `pos`, the float32 payload `in`. With
  //   selected = share * Select(u)
  //   p        = acknowledged ? 0 : pending
  //   d        = take ? codec(selected) : 0  (take only if acknowledged or nothing is pending)
  //   pending' = take ? d : p
  // it computes
  //   base' = pos + pending',   w' = base' + Residual(u, d)
  // Select() and Residual() belong to the merge rule. For the additive rule Select(u) = u and
  // Residual(u, d) = u - d, hence w' = w + (pos + p - base), and w' == base' bit by bit if no
  // progress remains. With `take`, a rule with Compensate() has Compensate(u, pos - base) in place
  // of u. It does not change progress that waits for a pending diff, as each position would change
  // it again. For a share below 1, a rule with kChangesUnsent has
  //   w' = base' + Residual(share * u, d) + (u - share * u)
  // A share of 1 changes no bit of the result. An element whose selected value
  // is
  // not
  // finite, or for which the codec has no finite d, is not taken: its d is 0 and its progress stays
  // in w. The other elements are taken. If the encoded d is zero in all elements, no diff is taken
  // and kNonZero is not set.
  kExchange,
  // kExchange without a position: d = codec(selected); base' = base + d; w' = base' + Residual(u,
  // d);
  // pending' = d. Only if nothing is pending.
  kTake,
  // out := encode(pending), with the `codec` and `scale` with which it was taken. It decodes to
  // exactly `pending`. For retransmission.
  kEncodePending,
  // A master merges a received diff: w := Apply(w, decode(in)). For kSparse and a rule with
  // kZeroChangesNothing (merge_rule.h), only the present elements are touched.
  kMerge,
  // With a rule that has kMergesOwn, `base - pending` of a chunk that this node masters is the
  // master's weight, and w - (base - pending) the progress of this node that is not merged yet.
  // kMerge changes both by the same step. Other rules have no kMergeOwn and no kTakeBack.
  // A master merges its own progress:
  //   base' = w' = Apply(base - pending, w - (base - pending)),   pending' = 0
  // and out := base' (float32), if it is not null. Progress that is not finite stays in w.
  kMergeOwn,
  // A master becomes a worker of the chunk, with the progress that it has not merged as unsent
  // progress: base -= pending, pending = 0. Clears the rule's state.
  kTakeBack,
  // A worker without progress of its own loads a position: w = base = pos, pending = 0. Clears the
  // rule's state.
  kLoad,
  // out := base - pending (float32): the master's weights as last received by this worker.
  kReturn,
  // A master becomes a worker of the chunk: base = w, pending = 0. Clears the rule's state.
  kDemote,
  // A worker drops the progress that it has not sent: w = base. Only if nothing is pending.
  kDropRest,
};

// Bits of ChunkOp::result.
inline constexpr uint8_t kNonZero = 1;    // kExchange, kTake: a diff was taken
inline constexpr uint8_t kNonFinite = 2;  // `in` contains NaN or infinity: not performed
inline constexpr uint8_t kMalformed = 4;  // `in` is not a payload of that codec: not performed
inline constexpr uint8_t kRemainder = 8;  // kExchange, kTake: w' != base' in some element
inline constexpr uint8_t kBusy = 16;      // a solver is writing these weights: not performed
// Any of these bits: the operation was not performed and wrote nothing.
inline constexpr uint8_t kRefused = kNonFinite | kMalformed | kBusy;

// True if the operation stores to w. Such a store overwrites concurrent stores of solvers.
inline constexpr bool WritesWeights(ChunkOpKind kind) {
  return kind == ChunkOpKind::kExchange || kind == ChunkOpKind::kTake ||
         kind == ChunkOpKind::kMerge || kind == ChunkOpKind::kMergeOwn ||
         kind == ChunkOpKind::kLoad || kind == ChunkOpKind::kDropRest;
}

// One operation. `in` and `out` are host memory or other memory that the executor's space can
// access, with at least the alignment of a float.
struct ChunkOp {
  ChunkOpKind kind = ChunkOpKind::kRead;
  // kExchange, kTake: codec for the diff. kMerge: codec of `in`. kEncodePending: codec with which
  // the diff was taken.
  Codec codec = Codec::kFloat32;
  bool acknowledged = false;  // kExchange
  bool take = false;          // kExchange
  uint8_t result = 0;         // set by the executor
  // kExchange, kTake: the codec actually used for `out`: kFloat32 if a sparse diff would not be
  // smaller than a dense one.
  Codec out_codec = Codec::kFloat32;
  // kExchange with `take`, kTake, kFloat32: drops the progress that is not taken, w' = base'.
  // Whatever another writer adds to w before or after is taken, or stays.
  bool drop_rest = false;
  uint32_t chunk = 0;
  uint32_t in_bytes = 0;
  // In: capacity of `out`. Out: size of the payload. Bytes beyond the payload, up to the capacity,
  // may have been overwritten.
  uint32_t out_bytes = 0;
  // kExchange, kTake: the share of Select(u) that is sent, greater than 0 and at most 1
  // (damping.h). kMerge, kMergeOwn: the factor of diffs by rules with kTakesShare (merge_rule.h).
  float share = 1;
  // kExchange, kTake: output, the scale of an int8 diff, derived from the largest selected value
  // that int8 can encode. kEncodePending: input, the same value.
  float scale = 0;
  // kMerge: number of positions (>= 0) that the master has sent since the one from which this diff
  // was computed. For merge rules that damp stale diffs.
  uint32_t staleness = 0;
  const std::byte* in = nullptr;
  // May be null for a float32 diff. The caller then sends it from ReplicaArrays::pending, which
  // does not change until it is acknowledged.
  std::byte* out = nullptr;
};

// Executes operations on one replica. Not thread-safe: one thread at a time. Solvers may write the
// weights, but no other array, concurrently.
class ChunkExecutor {
 public:
  virtual ~ChunkExecutor() = default;
  // Executes all operations in order. A batch contains each chunk at most once, except that it may
  // contain any number of kMerge operations of one chunk. Sets result, out_bytes, out_codec and
  // scale.
  virtual void Run(std::span<ChunkOp> ops) = 0;
  // Starts `ops`. The executor owns them and the memory to which they point until Finish() returns.
  // All operations started before that count as one batch.
  virtual void Start(std::span<ChunkOp> ops) { Run(ops); }
  virtual void Finish() {}
  // True if Start() may return before the operations are complete.
  virtual bool is_async() const { return false; }
  // Preferred number of operations per call, if that many are available.
  virtual size_t batch_ops() const { return 64; }

  // For set-up: payload_memory() is the memory in which operations access payloads fastest.
  // RegisterMemory() announces that payloads will lie in `memory`, which must outlive the executor.
  // It returns true if they are accessed there without a copy.
  virtual MemorySpace& payload_memory() { return HostMemory(); }
  virtual bool RegisterMemory(std::span<const std::byte> memory) {
    (void)memory;
    return true;
  }
  virtual const ReplicaArrays& arrays() const = 0;
};

// Upper bound in bytes for an encoded payload of `floats` elements, in any codec.
inline constexpr uint32_t MaxPayloadBytes(int64_t floats) {
  return static_cast<uint32_t>(floats < 2 ? 8 : 4 * floats);
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_CHUNK_OP_H_
