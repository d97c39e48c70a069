// Compares kernels with the host executor: random batches of all operations, codecs and
// payloads, valid and invalid, must give the same bits. Runs on emulated devices and on this
// machine's GPUs.
#include "exchange/kernels/kernel_body.h"

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "exchange/kernels/codec_config.h"
#include "exchange/kernels/host_executor.h"
#include "exchange/kernels/host_rule_executor.h"
#include "exchange/kernels/stream_executor.h"
#include "test/exchange/kernel_devices.h"

namespace millrace {
namespace {

using test::DeviceReplica;
using test::kAllCodecs;
using test::Replica;

TEST(KernelBody, CountsBitsAsTheProcessorDoes) {
  Rng rng(test::Seed(), {1});
  for (int i = 0; i < 10000; ++i) {
    const uint32_t x = rng.Next() & (rng.Below(2) ? ~0u : rng.Next());
    ASSERT_EQ(CountBits(x), static_cast<uint32_t>(std::popcount(x))) << x;
  }
  EXPECT_EQ(CountBits(~0u), 32u);
}

// Values that some codecs, or none, can represent.
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kWild[] = {kInfinity,   -kInfinity,  std::numeric_limits<float>::quiet_NaN(),
                           3.4e38f,     -3.4e38f,    0x1.fep127f,
                           0x1.fdp127f, -0x1.fcp127f};

float ModestValue(Rng* rng) {
  const float x = test::AnyValue(rng);
  return rng->Below(50) == 0 ? -0.0f : x;
}

std::vector<std::byte> BytesOf(const std::vector<float>& values) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return {bytes, bytes + 4 * values.size()};
}

template <typename T>
void PutAt(std::vector<std::byte>* bytes, size_t at, T value) {
  memcpy(bytes->data() + at, &value, sizeof(value));
}

std::vector<std::byte> DensePayload(size_t count, Rng* rng) {
  std::vector<float> values(count);
  for (float& value : values) value = ModestValue(rng);
  return BytesOf(values);
}

std::vector<std::byte> SparsePayload(size_t count, Rng* rng) {
  std::vector<std::byte> bytes(SparseBitmapBytes(static_cast<int64_t>(count)));
  const uint64_t one_in = 1 + rng->Below(6);
  size_t present = 0;
  for (size_t i = 0; i < count; ++i) {
    if (rng->Below(one_in) != 0) continue;
    bytes[i / 8] |= std::byte{1} << (i % 8);
    ++present;
  }
  const std::vector<std::byte> values = DensePayload(present, rng);
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

// A valid payload of `count` elements.
std::vector<std::byte> Payload(Codec codec, size_t count, Rng* rng) {
  if (codec == Codec::kFloat32) return DensePayload(count, rng);
  if (codec == Codec::kSparse) return SparsePayload(count, rng);
  if (codec == Codec::kBfloat16) {
    const std::vector<std::byte> floats = DensePayload(count, rng);
    std::vector<std::byte> bytes(2 * count);
    for (size_t i = 0; i < count; ++i) memcpy(&bytes[2 * i], &floats[4 * i + 2], 2);
    return bytes;
  }
  std::vector<std::byte> bytes(MinPayloadBytes(codec, static_cast<int64_t>(count)));
  for (std::byte& each : bytes) each = static_cast<std::byte>(rng->Next());
  if (codec == Codec::kInt4) {
    for (size_t block = 0; 16 * block < count; ++block) {
      PutAt(&bytes, 2 * block, Bfloat16Half(Bfloat16Codec{}.Round(rng->Gaussian())));
    }
    return bytes;
  }
  PutAt(&bytes, 0, std::fabs(rng->Gaussian()));
  return bytes;
}

// Sets the last bit of a bitmap, which denotes an element only if the bitmap is full. Appends a
// value, so that the length stays consistent.
void AddLastBit(size_t count, std::vector<std::byte>* payload) {
  std::byte& last = (*payload)[SparseBitmapBytes(static_cast<int64_t>(count)) - 1];
  if ((last & std::byte{0x80}) != std::byte{0}) return;
  last |= std::byte{0x80};
  payload->resize(payload->size() + 4);
}

// Makes one payload in three invalid: wrong length, non-finite value, or a bit beyond the end.
void PerhapsSpoil(Codec codec, size_t count, std::vector<std::byte>* payload, Rng* rng) {
  constexpr uint32_t kBad[] = {0x7f800000, 0xff800000, 0x7fc00001, 0xffffffff};
  const size_t floats = payload->size() / 4;
  switch (rng->Below(9)) {
    case 0:
      payload->resize(rng->Below(payload->size() + 20));
      break;
    case 1:
      if (codec == Codec::kInt8) PutAt(payload, 0, kBad[rng->Below(4)]);
      if (codec == Codec::kInt4)
        PutAt(payload, 2 * rng->Below((count + 15) / 16), uint16_t{0x7f80});
      if (codec == Codec::kFloat32) PutAt(payload, 4 * rng->Below(count), kBad[rng->Below(4)]);
      if (codec == Codec::kSparse) PutAt(payload, 4 * rng->Below(floats), kBad[rng->Below(4)]);
      if (codec == Codec::kBfloat16) PutAt(payload, 2 * rng->Below(count), uint16_t{0xff80});
      break;
    case 2:
      if (codec == Codec::kSparse) AddLastBit(count, payload);
      break;
    default:
      break;
  }
}

// The replicas of both executors, and the operations and payloads of a batch.
class Duel {
 public:
  Duel(const test::KernelDevice& device, int64_t size, int64_t chunk_floats,
       const CodecConfig& codec, bool shares, Rng* rng)
      : rng_(*rng),
        codec_(codec),
        host_(size, chunk_floats),
        device_(test::DeviceOf(device, &fake_).memory(), host_.arrays),
        host_executor_(MakeHostExecutor(host_.arrays, codec)),
        taken_(static_cast<size_t>(host_.arrays.chunks())),
        room_(MaxEncodedBytes(chunk_floats) + 64) {
    // Small launches, so that a batch needs several.
    executor_ = test::ExecutorOn(device, &fake_, device_.arrays(), codec,
                                 {.launch_ops = 7, .launches = 3, .stage_bytes = 0});
    payloads_ = Buffer(executor_->payload_memory(), 3 * kMaxOps * room_);
    const std::span<const std::byte> memory(payloads_.get<std::byte>(), payloads_.bytes());
    if (shares) {
      EXPECT_TRUE(executor_->RegisterMemory(memory));
    }
    test::Scatter(&host_, 1, rng);
    device_.CopyFrom(host_.arrays);
  }

  // Solvers make the same steps on both sides.
  void Progress(float step) {
    ReplicaArrays& a = host_.arrays;
    for (int64_t i = 0; i < a.size; ++i) {
      if (rng_.Below(3) == 0) a.weights[i] += step * rng_.Gaussian();
      if (rng_.Below(100) == 0) a.weights[i] = kWild[rng_.Below(std::size(kWild))];
    }
    device_.CopyFrom(host_.arrays);
  }

  void RunRandomBatch() {
    std::vector<ChunkOp> ops;
    const auto chunks = static_cast<uint32_t>(host_.arrays.chunks());
    for (uint32_t chunk = 0; chunk < chunks && ops.size() < kMaxOps; ++chunk) {
      if (rng_.Below(3) == 0) {
        for (uint64_t merges = 1 + rng_.Below(4); merges > 0 && ops.size() < kMaxOps; --merges) {
          AddMerge(rng_.Below(4) ? chunk : static_cast<uint32_t>(rng_.Below(chunk + 1)), &ops);
        }
      } else if (!merged_.contains(chunk)) {
        AddOther(chunk, &ops);
      }
    }
    merged_.clear();
    others_.clear();
    std::vector<ChunkOp> expected = ops;
    for (size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].out) expected[i].out = PayloadAt(2 * kMaxOps + i);
    }
    host_executor_->Run(expected);
    executor_->Run(ops);
    for (size_t i = 0; i < ops.size(); ++i) Compare(ops[i], expected[i]);
    EXPECT_TRUE(device_.Equals(host_.arrays));
    EXPECT_TRUE(host_.GuardsIntact());
  }

  StreamExecutor& executor() { return *executor_; }

 private:
  static constexpr size_t kMaxOps = 64;

  std::byte* PayloadAt(size_t i) { return payloads_.get<std::byte>() + i * room_; }
  size_t Count(uint32_t chunk) const { return static_cast<size_t>(host_.arrays.floats_of(chunk)); }

  void SetIn(const std::vector<std::byte>& bytes, size_t index, ChunkOp* op) {
    std::byte* const to = PayloadAt(index);
    std::copy_n(bytes.begin(), std::min(bytes.size(), room_), to);
    op->in = to;
    op->in_bytes = static_cast<uint32_t>(bytes.size());
  }

  void AddMerge(uint32_t chunk, std::vector<ChunkOp>* ops) {
    if (others_.contains(chunk)) return;
    merged_.insert(chunk);
    ChunkOp op{.kind = ChunkOpKind::kMerge,
               .codec = kAllCodecs[rng_.Below(std::size(kAllCodecs))],
               .chunk = chunk};
    std::vector<std::byte> bytes = Payload(op.codec, Count(chunk), &rng_);
    PerhapsSpoil(op.codec, Count(chunk), &bytes, &rng_);
    op.staleness = static_cast<uint32_t>(rng_.Below(5));
    SetIn(bytes, ops->size(), &op);
    ops->push_back(op);
  }

  void AddOther(uint32_t chunk, std::vector<ChunkOp>* ops) {
    constexpr ChunkOpKind kKinds[] = {
        ChunkOpKind::kRead,          ChunkOpKind::kExchange, ChunkOpKind::kExchange,
        ChunkOpKind::kExchange,      ChunkOpKind::kTake,     ChunkOpKind::kTake,
        ChunkOpKind::kEncodePending, ChunkOpKind::kLoad,     ChunkOpKind::kReturn,
        ChunkOpKind::kDemote,        ChunkOpKind::kDropRest};
    ChunkOp op{
        .kind = kKinds[rng_.Below(std::size(kKinds))], .codec = codec_.codec, .chunk = chunk};
    if (rng_.Below(2) == 0) op.share = 0.37f;
    op.drop_rest = op.codec == Codec::kFloat32 && rng_.Below(3) == 0;
    if (op.kind == ChunkOpKind::kEncodePending) {
      if (!(taken_[chunk].result & kNonZero)) return;
      op.codec = taken_[chunk].out_codec;
      op.scale = taken_[chunk].scale;
    }
    if (op.kind == ChunkOpKind::kExchange || op.kind == ChunkOpKind::kLoad) {
      op.acknowledged = rng_.Below(2);
      op.take = rng_.Below(2);
      std::vector<std::byte> position = DensePayload(Count(chunk), &rng_);
      PerhapsSpoil(Codec::kFloat32, Count(chunk), &position, &rng_);
      SetIn(position, ops->size(), &op);
    }
    op.out = PayloadAt(kMaxOps + ops->size());
    op.out_bytes = static_cast<uint32_t>(room_);
    if (codec_.codec == Codec::kFloat32 && op.kind == ChunkOpKind::kTake && rng_.Below(2)) {
      op.out = nullptr;
    }
    others_.insert(chunk);
    ops->push_back(op);
  }

  void Compare(const ChunkOp& op, const ChunkOp& expected) {
    SCOPED_TRACE(testing::Message()
                 << "kind " << static_cast<int>(op.kind) << " codec " << static_cast<int>(op.codec)
                 << " chunk " << op.chunk << " in_bytes " << op.in_bytes);
    EXPECT_EQ(op.result, expected.result);
    const bool takes = op.kind == ChunkOpKind::kTake || op.kind == ChunkOpKind::kExchange;
    const bool moved = !(expected.result & (kNonFinite | kMalformed));
    if (takes && moved) taken_[op.chunk] = expected;
    const bool without_out = op.kind == ChunkOpKind::kDemote || op.kind == ChunkOpKind::kDropRest;
    if (op.kind == ChunkOpKind::kLoad || without_out) taken_[op.chunk] = {};
    if (op.kind == ChunkOpKind::kMerge || without_out) return;
    EXPECT_EQ(op.out_bytes, expected.out_bytes);
    if (op.kind == ChunkOpKind::kLoad || !moved) return;
    EXPECT_EQ(op.out_codec, expected.out_codec);
    EXPECT_EQ(op.scale, expected.scale);
    if (op.out) {
      EXPECT_TRUE(
          memcmp(op.out, expected.out, op.out_bytes) == 0 ||
          (op.kind != ChunkOpKind::kEncodePending && !takes &&
           test::SameFloats(reinterpret_cast<const float*>(op.out),
                            reinterpret_cast<const float*>(expected.out), op.out_bytes / 4)));
    }
  }

  Rng& rng_;
  const CodecConfig codec_;
  test::FakeDevice fake_;
  Replica host_;
  DeviceReplica device_;
  std::unique_ptr<ChunkExecutor> host_executor_;
  std::vector<ChunkOp> taken_;
  const size_t room_;
  std::set<uint32_t> merged_, others_;
  Buffer payloads_;
  std::unique_ptr<StreamExecutor> executor_;
};

class Kernels : public testing::TestWithParam<test::KernelDevice> {
 protected:
  void SetUp() override {
    const std::string why = test::WhyMissing(GetParam());
    if (!why.empty()) GTEST_SKIP() << why;
  }
};

// Chunk sizes; the last chunk of a replica is shorter.
constexpr int64_t kChunks[] = {1, 2, 3, 31, 32, 33, 64, 100, 257, 351};

TEST_P(Kernels, LeaveTheBitsThatTheHostLeaves) {
  for (const CodecConfig& codec : test::kAllCodecConfigs) {
    for (const int64_t floats : kChunks) {
      for (const bool shares : {false, true}) {
        Rng rng(test::Seed(), {2, static_cast<uint64_t>(floats), shares});
        SCOPED_TRACE(testing::Message() << "codec " << CodecName(codec) << " floats " << floats
                                        << " shares " << shares);
        Duel duel(GetParam(), 9 * floats + (floats + 1) / 2, floats, codec, shares, &rng);
        for (const float step : {1.0f, 1e-3f, 0.0f, 1e-42f, 1e30f, 1.0f}) {
          for (int round = 0; round < 3; ++round) {
            duel.Progress(step);
            duel.RunRandomBatch();
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(Kernels, CarryTheLongestChunkThatIsAllowed) {
  Rng rng(test::Seed(), {3});
  for (const CodecConfig& codec : test::kAllCodecConfigs) {
    Duel duel(GetParam(), 2 * kMaxKernelFloats, kMaxKernelFloats, codec, true, &rng);
    for (int round = 0; round < 3; ++round) {
      duel.Progress(1);
      duel.RunRandomBatch();
    }
  }
}

// More than a launch has blocks.
TEST_P(Kernels, CarryManyChainsAsTheHostDoes) {
  for (const CodecConfig& codec : test::kAllCodecConfigs) {
    Rng rng(test::Seed(), {5});
    SCOPED_TRACE(testing::Message() << "codec " << CodecName(codec));
    Duel duel(GetParam(), 64 * 35, 35, codec, true, &rng);
    for (int round = 0; round < 6; ++round) {
      duel.Progress(1);
      duel.RunRandomBatch();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(On, Kernels, testing::ValuesIn(test::KernelDevices()),
                         [](const auto& info) { return info.param.name; });

// A rule with state, by which zeros change weights.
struct PullingRule {
  static constexpr int kStateFloats = 1;
  static constexpr bool kZeroChangesNothing = false;
  template <typename T>
  MILLRACE_HOST_DEVICE T Select(T u) const {
    return 0.4f * u;
  }
  template <typename T>
  MILLRACE_HOST_DEVICE T Residual(T u, T d) const {
    return u - 2.0f * d;
  }
  template <typename T>
  MILLRACE_HOST_DEVICE T Apply(T w, T d, T* state, uint32_t staleness) const {
    *state = *state + d;
    return w + d / (1.0f + static_cast<float>(staleness)) + 0.4f * *state;
  }
};

TEST(KernelBody, CarriesAnotherRuleAsTheHostDoes) {
  Rng rng(test::Seed(), {4});
  for (const Codec codec : kAllCodecs) {
    Replica host(100, 35), device(100, 35);
    test::Scatter(&host, 1, &rng);
    device.CopyFrom(host);
    HostRuleExecutor<PullingRule> expected(host.arrays, {codec, 0.5f}, {}, BestSimd());
    test::FakeDevice fake;
    StreamExecutor executor(fake, std::make_unique<test::EmulatedLauncher<PullingRule>>(),
                            device.arrays, {codec, 0.5f});
    for (int round = 0; round < 20; ++round) {
      std::vector<std::vector<std::byte>> ins, outs(6, std::vector<std::byte>(160));
      std::vector<ChunkOp> ops;
      for (uint32_t chunk = 0; chunk < 3; ++chunk) {
        ins.push_back(Payload(codec, chunk < 2 ? 35 : 30, &rng));
        ChunkOp op{.kind = round % 2 ? ChunkOpKind::kMerge : ChunkOpKind::kTake, .codec = codec};
        op.chunk = chunk;
        // Chunk 0 is now and then demoted, or loses its rest.
        if (chunk == 0 && round % 5 == 0) op.kind = ChunkOpKind::kDemote;
        if (chunk == 0 && round % 5 == 3) op.kind = ChunkOpKind::kDropRest;
        op.staleness = chunk;
        op.in = ins.back().data();
        op.in_bytes = static_cast<uint32_t>(ins.back().size());
        op.out = outs[chunk].data();
        op.out_bytes = 160;
        ops.push_back(op);
      }
      std::vector<ChunkOp> again = ops;
      for (size_t i = 0; i < 3; ++i) again[i].out = outs[3 + i].data();
      expected.Run(ops);
      executor.Run(again);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(again[i].result, ops[i].result);
        if (ops[i].kind != ChunkOpKind::kTake) continue;
        EXPECT_EQ(again[i].out_bytes, ops[i].out_bytes);
        EXPECT_EQ(memcmp(outs[i].data(), outs[3 + i].data(), ops[i].out_bytes), 0);
      }
      ASSERT_TRUE(device.Equals(host)) << "codec " << static_cast<int>(codec);
    }
  }
}

}  // namespace
}  // namespace millrace
