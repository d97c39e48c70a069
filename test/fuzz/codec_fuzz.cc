// Payloads of any content and length. An operation accepts one and leaves finite weights, or
// rejects it and changes nothing; it never writes outside its chunk. (The address sanitizer detects
// reads outside the payload, because its block has the exact size.)
//
// The first bytes of an input choose the operation, the codec, the instruction set and the chunk
// size; the rest is the payload. Operations from kGaps on read it by gaps (sparse_gaps.h).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "exchange/kernels/host_executor.h"
#include "exchange/kernels/host_payload.h"
#include "exchange/kernels/sparse_gaps.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

constexpr size_t kHead = 4;
constexpr unsigned char kGaps = 128;
constexpr float kGuard = 12345.5f;
constexpr int64_t kAround = 16;  // guard floats before and after each array

// Three arrays of n floats in one block, with guards around each.
struct GuardedArrays {
  explicit GuardedArrays(int64_t n) : n(n), memory(3 * (n + kAround) + kAround, kGuard) {
    for (int64_t i = 0; i < n; ++i) {
      At(0)[i] = 1 + 0.001f * static_cast<float>(i % 7);
      At(1)[i] = 1;
      At(2)[i] = 0;
    }
  }
  float* At(int array) { return memory.data() + kAround + array * (n + kAround); }
  ReplicaArrays arrays() { return {At(0), At(1), At(2), nullptr, n, n}; }
  bool GuardsIntact() const {
    for (int64_t i = 0; i < static_cast<int64_t>(memory.size()); ++i) {
      if (i % (n + kAround) < kAround && memory[i] != kGuard) return false;
    }
    return true;
  }
  bool Finite() const {
    return std::all_of(memory.begin(), memory.end(), [](float x) { return std::isfinite(x); });
  }

  int64_t n;
  std::vector<float> memory;
};

std::string Input(ChunkOpKind kind, Codec codec, int64_t n, const std::string& payload) {
  const char head[kHead] = {static_cast<char>(kind), static_cast<char>(codec), 0,
                            static_cast<char>(n)};
  return std::string(head, kHead) + payload;
}

std::string Taken(Codec codec, int64_t n) {
  GuardedArrays replica(n);
  std::string out(MaxPayloadBytes(n), 0);
  ChunkOp op{.kind = ChunkOpKind::kTake, .codec = codec};
  op.out = reinterpret_cast<std::byte*>(out.data());
  op.out_bytes = static_cast<uint32_t>(out.size());
  MakeHostExecutor(replica.arrays(), {codec, 0.0055f})->Run({&op, 1});
  out.resize(op.out_bytes);
  return Input(ChunkOpKind::kMerge, op.out_codec, n, out);
}

// A payload by gaps becomes one with a bitmap, of which it can be written again, or is refused.
bool ReadsGaps(const std::byte* payload, size_t bytes, bool is_short, int64_t n) {
  std::vector<std::byte> sparse(MaxPayloadBytes(n)), again(sparse.size()), room(sparse.size());
  const uint32_t length = ReadGaps({payload, bytes}, is_short, n, sparse.data());
  if (length == 0) return true;
  const uint8_t check = CheckPayload(Codec::kSparse, sparse.data(), length, n, BestSimd());
  if (check == kMalformed || length > sparse.size()) return false;
  uint32_t written = 0;
  const SparseForm form = WriteGaps({sparse.data(), length}, n, room, &written);
  if (form == SparseForm::kBitmap) return true;
  const bool is_now_short = form == SparseForm::kShortGaps;
  return ReadGaps({room.data(), written}, is_now_short, n, again.data()) == length &&
         std::equal(again.begin(), again.begin() + length, sparse.begin());
}

Simd AnySimd(char byte) {
  const Simd simd = byte % 3 == 0 ? Simd::kAvx512 : byte % 3 == 1 ? Simd::kAvx2 : Simd::kBaseline;
  return SimdSupported(simd) ? simd : BestSimd();
}

}  // namespace

std::vector<std::string> Corpus() {
  std::vector<std::string> all;
  for (int64_t n : {1, 9, 64, 100}) {
    for (Codec codec :
         {Codec::kFloat32, Codec::kBfloat16, Codec::kInt8, Codec::kInt4, Codec::kSparse}) {
      all.push_back(Taken(codec, n));
      all.push_back(Input(ChunkOpKind::kExchange, codec, n, std::string(4 * n, '\x3f')));
    }
    all.push_back(Input(ChunkOpKind::kLoad, {}, n, std::string(4 * n, '\x3f')));
    all.push_back(Input(static_cast<ChunkOpKind>(kGaps), {}, n, "\xff\x03\x40\x3f\x01\x40\x3f"));
    all.push_back(Input(static_cast<ChunkOpKind>(kGaps + 1), {}, n, std::string(15, '\x07')));
  }
  return all;
}

bool Target(const std::string& input) {
  if (input.size() < kHead) return true;
  constexpr ChunkOpKind kKinds[] = {ChunkOpKind::kMerge, ChunkOpKind::kExchange,
                                    ChunkOpKind::kLoad};
  auto kind = static_cast<ChunkOpKind>(input[0]);
  if (std::find(std::begin(kKinds), std::end(kKinds), kind) == std::end(kKinds)) {
    kind = kKinds[static_cast<unsigned char>(input[0]) % 3];
  }
  // A worker uses its own, valid codec; the codec of a diff that a master merges can be any byte.
  auto codec = static_cast<Codec>(input[1]);
  if (kind != ChunkOpKind::kMerge)
    codec = static_cast<Codec>(static_cast<unsigned char>(input[1]) % 5);
  const int64_t n = 1 + static_cast<unsigned char>(input[3] - 1);

  const size_t bytes = input.size() - kHead;
  const std::unique_ptr<char[]> block(new char[bytes]);
  memcpy(block.get(), input.data() + kHead, bytes);
  const auto operation = static_cast<unsigned char>(input[0]);
  if (operation >= kGaps) {
    return ReadsGaps(reinterpret_cast<const std::byte*>(block.get()), bytes, operation % 2 == 0, n);
  }
  GuardedArrays replica(n);
  const std::vector<float> before = replica.memory;
  std::vector<std::byte> out(MaxPayloadBytes(n));
  ChunkOp op{.kind = kind, .codec = codec, .acknowledged = true, .take = true};
  op.in = reinterpret_cast<const std::byte*>(block.get());
  op.in_bytes = static_cast<uint32_t>(bytes);
  op.out = out.data();
  op.out_bytes = static_cast<uint32_t>(out.size());
  MakeHostExecutor(replica.arrays(), {codec, 0.0055f}, {}, AnySimd(input[2]))->Run({&op, 1});
  if (op.result & (kMalformed | kNonFinite)) return replica.memory == before;
  return replica.GuardsIntact() && replica.Finite();
}

}  // namespace millrace::fuzz
