// Reference for the operations of exchange/kernels/chunk_op.h: element by element, written from
// its equations and from the payload grammar of codec.h, without sharing code. The vector code
// must produce the same bits.
#ifndef MILLRACE_TEST_EXCHANGE_REFERENCE_EXECUTOR_H_
#define MILLRACE_TEST_EXCHANGE_REFERENCE_EXECUTOR_H_

#include <functional>
#include <utility>
#include <vector>

#include "exchange/kernels/chunk_op.h"

namespace millrace::test {

// Additive by default.
struct ReferenceRule {
  bool zero_changes_nothing = true;
  int state_floats = 0;
  bool merges_own = false;   // the master's weights are base - pending
  bool takes_share = false;  // diffs are merged times ChunkOp::share
  std::function<float(float)> offer = [](float u) { return u; };
  // keep(u, 0) is not u: a share below 1 is kept by itself, and what is withheld as it is.
  bool changes_unsent = false;
  // Of a diff in which some element is not 0; without one, all of u stays.
  std::function<float(float, float)> keep = [](float u, float d) { return u - d; };
  // The progress in place of u when the base moves by `moved`. Changes the state.
  std::function<float(float, float, float*)> compensate = [](float u, float, float*) { return u; };
  // From the sums over the chunk of d s, d d and s s, where s is the first float of state: the diff
  // that is merged is first * d + second * s. None: d.
  std::function<std::pair<float, float>(float, float, float)> align = nullptr;
  std::function<float(float, float, float*, uint32_t)> merge = [](float w, float d, float*,
                                                                  uint32_t) { return w + d; };
};

// The bfloat16 nearest to x, as a float; ties to even.
float NearestBfloat16(float x);
// x / scale rounded to the nearest integer, ties to even, clamped to +-127.
int NearestLevel(float x, float scale);

// An encoded diff.
struct ReferencePayload {
  Codec codec = Codec::kFloat32;
  float scale = 0;
  std::vector<std::byte> bytes;
};

// `d` must hold values that the codec can represent.
ReferencePayload ReferenceEncode(Codec codec, const std::vector<float>& d, float scale);
// Fills `d`, whose size is that of the chunk. Returns 0, kMalformed or kNonFinite.
uint8_t ReferenceDecode(Codec codec, const std::byte* in, size_t bytes, std::vector<float>* d);

class ReferenceExecutor : public ChunkExecutor {
 public:
  ReferenceExecutor(const ReplicaArrays& arrays, const CodecConfig& codec, ReferenceRule rule = {})
      : arrays_(arrays), codec_(codec), rule_(std::move(rule)), rounds_(arrays.chunks()) {}
  void Run(std::span<ChunkOp> ops) override;
  const ReplicaArrays& arrays() const override { return arrays_; }

 private:
  void RunOne(ChunkOp* op);
  // Rounds offers to values that the codec represents; an offer without a finite value becomes
  // 0.
  void Round(const ChunkOp& op, std::vector<float>* offers, float* scale);
  // Sets to 0 what a sparse diff does not send.
  void Thin(uint32_t chunk, std::vector<float>* offers);
  void Move(ChunkOp* op, const float* position, bool take, bool acknowledged);
  void Write(Codec codec, const std::vector<float>& d, ChunkOp* op);
  void ClearState(const ChunkOp& op);
  // Calls `change` with the state of element i of the chunk, which it may change.
  float WithState(uint32_t chunk, int64_t i, const std::function<float(float*)>& change);
  // Replaces a decoded diff by the one that is merged.
  void Align(uint32_t chunk, std::vector<float>* d);

  const ReplicaArrays arrays_;
  const CodecConfig codec_;
  const ReferenceRule rule_;
  std::vector<uint32_t> rounds_;  // by chunk: takes of sparse diffs
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_EXCHANGE_REFERENCE_EXECUTOR_H_
