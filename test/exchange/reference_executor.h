// Reference for the operations of exchange/kernels/chunk_op.h: element by element, written from
// its equations and from the payload grammar of codec.h, without sharing code. The vector code
// must produce the same bits.
#ifndef MILLRACE_TEST_EXCHANGE_REFERENCE_EXECUTOR_H_
#define MILLRACE_TEST_EXCHANGE_REFERENCE_EXECUTOR_H_

#include <functional>
#include <vector>

#include "exchange/kernels/chunk_op.h"

namespace millrace::test {

// Additive by default.
struct ReferenceRule {
  bool zero_changes_nothing = true;
  bool has_state = false;
  std::function<float(float)> offer = [](float u) { return u; };
  std::function<float(float, float)> keep = [](float u, float d) { return u - d; };
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
      : arrays_(arrays), threshold_(codec.threshold), rule_(std::move(rule)) {}
  void Run(std::span<ChunkOp> ops) override;
  const ReplicaArrays& arrays() const override { return arrays_; }

 private:
  void RunOne(ChunkOp* op);
  // Rounds offers to values that the codec represents; an offer without a finite value becomes
  // 0.
  void Round(Codec codec, std::vector<float>* offers, float* scale) const;
  void Move(ChunkOp* op, const float* position, bool take, bool acknowledged);
  void Write(Codec codec, const std::vector<float>& d, ChunkOp* op);
  void ClearState(const ChunkOp& op);

  const ReplicaArrays arrays_;
  const float threshold_;
  const ReferenceRule rule_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_EXCHANGE_REFERENCE_EXECUTOR_H_
