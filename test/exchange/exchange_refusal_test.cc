// Settings, frames and numbers that an exchange refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_executor.h"
#include "exchange/protocol/exchange.h"
#include "exchange/protocol/ownership.h"
#include "test/sim/cluster.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using sim::Cluster;
using sim::FrameBytes;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

uint64_t Drops(Cluster& x, size_t node, DropReason drop) {
  return x.exchange(node).stats().drops[drop];
}

// A position of `chunk` with equal values, newer than any other.
FrameBytes ForgePosition(Cluster& x, uint16_t from, FrameHeader header, uint32_t chunk,
                         float value) {
  header.chunk = chunk;
  header.number = x.exchange(from).table().chunks[chunk].number + 5;
  const std::vector<float> values(10, value);
  const uint64_t acks = 0;
  return x.Forge(from, header, std::as_bytes(std::span(&acks, 1)),
                 std::as_bytes(std::span(values)));
}

TEST(ExchangeConfig, IsRefusedInOneLineThatNamesTheField) {
  using Change = void (*)(ExchangeConfig*);
  const std::pair<const char*, Change> kBad[] = {
      {"max_nodes is 4097", [](ExchangeConfig* c) { c->max_nodes = kMaxNodes + 1; }},
      {"node is 2", [](ExchangeConfig* c) { c->node = 2; }},
      {"max_members is 3", [](ExchangeConfig* c) { c->max_members = 3; }},
      {"slots is 7", [](ExchangeConfig* c) { c->slots = 7; }},
      {"threshold is 0",
       [](ExchangeConfig* c) {
         c->codec = {Codec::kSparse, 0};
       }},
      {"threshold is nan",
       [](ExchangeConfig* c) {
         c->codec = {Codec::kSparse, kNan};
       }},
      {"position_share is 0",
       [](ExchangeConfig* c) { c->position_codec = Codec::kSparse, c->position_share = 0; }},
      {"position_codec is topk",
       [](ExchangeConfig* c) { c->position_codec = Codec::kSparse, c->direct = true; }},
      {"position_codec is int8",
       [](ExchangeConfig* c) { c->position_codec = Codec::kInt8, c->direct = true; }},
      {"resend_ns is 0", [](ExchangeConfig* c) { c->resend_ns = 0; }},
      {"peer_timeout_ns is 300",
       [](ExchangeConfig* c) { c->heartbeat_ns = 101, c->peer_timeout_ns = 300; }},
      {"heartbeat_ns, 0", [](ExchangeConfig* c) { c->heartbeat_ns = 0; }},
  };
  std::vector<float> memory(30);
  const ReplicaArrays arrays{&memory[0], &memory[10], &memory[20], nullptr, 10, 10};
  const auto executor = MakeHostExecutor(arrays);
  for (const auto& [expected, change] : kBad) {
    ExchangeConfig config = sim::ConfigOf({}, 0);
    change(&config);
    const std::string error = test::ErrorOf([&] { Exchange(config, executor.get()); });
    EXPECT_CONTAINS(error, expected);
    EXPECT_CONTAINS(error, "expected");
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

TEST(Exchange, RefusesADiffThatIsNotFiniteAndTakesTheNextUnderItsSeq) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    Cluster x({});
    const uint32_t chunk = x.ChunkOf(0);
    std::vector<float> values(10, 3.0f);
    values[7] = bad;
    x.Give(0, x.ForgeDiff(1, 0, chunk, 1, values));
    EXPECT_EQ(Drops(x, 0, DropReason::kNonFinite), 1u);
    EXPECT_EQ(x.exchange(0).stats().diffs_merged, 0u);
    for (const float w : x[0].weights) EXPECT_EQ(w, 0);
    // No position may acknowledge the refused diff.
    bool positions = false;
    x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
      const FrameView view = frame.decoded();
      if (view.header.type != FrameType::kPosition || view.header.chunk != chunk) return true;
      positions = true;
      EXPECT_EQ(view.acks[0] & std::byte{2}, std::byte{0});
      return true;
    };
    x.Add(0, chunk * 10, 1);
    x.Run(3);
    EXPECT_TRUE(positions);
    x.delivers = nullptr;
    x.Give(0, x.ForgeDiff(1, 0, chunk, 1, std::vector<float>(10, 3.0f)));
    EXPECT_EQ(x[0].weights[chunk * 10 + 7], 3);
  }
}

TEST(Exchange, RefusesADiffOfAnotherLength) {
  Cluster x({});
  const uint32_t chunk = x.ChunkOf(0);
  x.Give(0, x.ForgeDiff(1, 0, chunk, 1, std::vector<float>(9, 3.0f)));
  x.Give(0, x.ForgeDiff(1, 0, chunk, 1, std::vector<float>(11, 3.0f)));
  EXPECT_EQ(Drops(x, 0, DropReason::kPayload), 2u);
  EXPECT_FALSE(x.exchange(0).stats().diffs_merged);
  x.Give(0, x.ForgeDiff(1, 0, chunk, 1, std::vector<float>(10, 3.0f)));
  EXPECT_EQ(x[0].weights[chunk * 10], 3);
}

TEST(Exchange, NeverSendsADiffThatIsNotFinite) {
  for (const Codec codec :
       {Codec::kFloat32, Codec::kBfloat16, Codec::kInt8, Codec::kInt4, Codec::kSparse}) {
    Cluster x({.codec = {codec, 0.5f}});
    const uint32_t mine = x.ChunkOf(1), theirs = x.ChunkOf(0);
    x.Add(1, theirs * 10 + 2, kNan);
    x.Add(1, theirs * 10 + 4, 2);  // finite elements of the same chunk are sent
    x.Add(1, mine * 10 + 2, kInfinity);
    x.Add(0, mine * 10 + 3, 1);
    for (int i = 0; i < 100; ++i) {
      x.Add(0, theirs * 10 + 5, 1);
      x.Tick();
      for (const float w : x[0].weights) ASSERT_TRUE(std::isfinite(w));
    }
    EXPECT_NEAR(x[0].weights[theirs * 10 + 4], 2, 0.01);
    EXPECT_GT(Drops(x, 0, DropReason::kNonFinite), 0u);  // the position of `mine`
  }
}

// An operation that a solver blocks is repeated later, as if the frame had been lost.
TEST(Exchange, TakesAndMergesLaterWhereASolverIsInTheWeights) {
  Cluster x({});
  for (const size_t busy : {0, 1}) {  // the chunk's master; its worker
    const uint32_t chunk = x.ChunkOf(0);
    float* const weights = &x[busy].weights[chunk * 10];
    const float before = x[0].weights[chunk * 10 + 3];
    const uint64_t drops = Drops(x, busy, DropReason::kBusy),
                   others = Drops(x, 1 - busy, DropReason::kBusy);
    {
      RangeLock::Shared solver(x[busy].locks.get());
      solver.Lock(weights, 10);
      x.Add(1, chunk * 10 + 3, 2);
      x.Add(0, chunk * 10 + 4, 1);
      x.Run(40);
      EXPECT_GT(Drops(x, busy, DropReason::kBusy), drops);
      EXPECT_EQ(Drops(x, 1 - busy, DropReason::kBusy), others);
      EXPECT_EQ(x[0].weights[chunk * 10 + 3], before);
      EXPECT_FALSE(x.exchange(0).quiescent() && x.exchange(1).quiescent());
      solver.Unlock();
    }
    x.Settle();
    for (const size_t node : {0, 1}) {
      EXPECT_EQ(x[node].weights[chunk * 10 + 3], before + 2) << busy;
      EXPECT_EQ(x[node].weights[chunk * 10 + 4], static_cast<float>(busy + 1));
    }
  }
}

// Unsolicited diffs are also taken later.
TEST(Exchange, PushesLaterWhereASolverIsInTheWeights) {
  Cluster x({});
  const uint32_t chunk = x.ChunkOf(0);
  RangeLock::Shared solver(x[1].locks.get());
  solver.Lock(&x[1].weights[chunk * 10], 10);
  x.Add(1, chunk * 10 + 3, 2);
  x.Run(40);
  EXPECT_EQ(x[0].weights[chunk * 10 + 3], 0);
  EXPECT_FALSE(x.exchange(1).quiescent());
  solver.Unlock();
  x.Settle();
  EXPECT_EQ(x[0].weights[chunk * 10 + 3], 2);
}

TEST(Exchange, RefusesAPositionThatIsNotFinite) {
  Cluster x({});
  const uint32_t chunk = x.ChunkOf(0);
  const FrameHeader header = x.HeaderOf(0, kAllNodes, FrameType::kPosition);
  x.Give(1, ForgePosition(x, 0, header, chunk, kNan));
  EXPECT_EQ(Drops(x, 1, DropReason::kNonFinite), 1u);
  EXPECT_EQ(x[1].weights[chunk * 10], 0);
  // The number of a refused position does not count as received.
  x.Give(1, ForgePosition(x, 0, header, chunk, 4));
  EXPECT_EQ(x[1].weights[chunk * 10], 4);
}

TEST(Exchange, TakesPositionsOnlyOfAChunksMaster) {
  Cluster x({.nodes = 3});
  const uint32_t chunk = x.ChunkOf(0);
  x.Give(1, ForgePosition(x, 2, x.HeaderOf(2, 1, FrameType::kPosition), chunk, 9));
  EXPECT_EQ(Drops(x, 1, DropReason::kNotMaster), 1u);
  x.Give(0, ForgePosition(x, 2, x.HeaderOf(2, 0, FrameType::kPosition), chunk, 9));
  EXPECT_EQ(Drops(x, 0, DropReason::kNotMaster), 1u);
  for (const float w : x[1].weights) EXPECT_EQ(w, 0);
  for (const float w : x[0].weights) EXPECT_EQ(w, 0);
}

TEST(Exchange, MergesDiffsOnlyOfChunksThatItMasters) {
  Cluster x({.nodes = 3});
  const uint32_t chunk = x.ChunkOf(0);
  x.Give(1, x.ForgeDiff(2, 1, chunk, 1, std::vector<float>(10, 3.0f)));
  EXPECT_EQ(Drops(x, 1, DropReason::kNotMaster), 1u);
  for (const float w : x[1].weights) EXPECT_EQ(w, 0);
}

// Each change makes a valid frame foreign: other run, destination, view or incarnation.
TEST(Exchange, HearsOnlyWhatIsMeantForIt) {
  using Change = void (*)(FrameHeader*);
  const std::pair<DropReason, Change> kForeign[] = {
      {DropReason::kRun, [](FrameHeader* h) { ++h->run; }},
      {DropReason::kDestination, [](FrameHeader* h) { h->destination = 2; }},
      {DropReason::kView, [](FrameHeader* h) { ++h->view.epoch; }},
      {DropReason::kView, [](FrameHeader* h) { ++h->view.coordinator; }},
      {DropReason::kStranger, [](FrameHeader* h) { ++h->incarnation; }},
  };
  for (const auto& [drop, change] : kForeign) {
    Cluster x({.nodes = 3});
    FrameHeader header = x.HeaderOf(0, 1, FrameType::kPosition);
    change(&header);
    x.Give(1, ForgePosition(x, 0, header, x.ChunkOf(0), 9));
    EXPECT_EQ(Drops(x, 1, drop), 1u) << DropReasonName(drop);
    for (const float w : x[1].weights) EXPECT_EQ(w, 0) << DropReasonName(drop);
  }
}

TEST(Exchange, IgnoresItsOwnFrames) {
  Cluster x({});
  x.Give(0, x.ForgeDiff(0, 0, x.ChunkOf(0), 1, std::vector<float>(10, 3.0f)));
  EXPECT_EQ(Drops(x, 0, DropReason::kSelf), 1u);
  EXPECT_EQ(x[0].weights[x.ChunkOf(0) * 10], 0);
}

TEST(Exchange, DropsWhatNamesNoChunkOfIts) {
  Cluster x({});
  const FrameType kOfChunks[] = {FrameType::kPosition, FrameType::kDiff, FrameType::kTakeoverState};
  for (const FrameType type : kOfChunks) {
    x.Give(1, ForgePosition(x, 0, x.HeaderOf(0, 1, type), 0, 1));
    FrameHeader header = x.HeaderOf(0, 1, type);
    const std::vector<float> values(10);
    const uint64_t acks = 0;
    header.chunk = 6;
    const uint64_t before = Drops(x, 1, DropReason::kChunk);
    x.Give(1, x.Forge(0, header, std::as_bytes(std::span(&acks, 1)),
                      std::as_bytes(std::span(values))));
    EXPECT_EQ(Drops(x, 1, DropReason::kChunk), before + 1) << static_cast<int>(type);
  }
  const FrameType kLists[] = {FrameType::kPositionAck, FrameType::kTakeoverRequest,
                              FrameType::kTakeoverAck};
  for (const FrameType type : kLists) {
    std::byte entry[kChunkNumberBytes];
    EncodeChunkNumber({6, 1}, entry);
    const uint64_t before = Drops(x, 1, DropReason::kChunk),
                   half = Drops(x, 1, DropReason::kPayload);
    x.Give(1, x.Forge(0, x.HeaderOf(0, 1, type), {}, entry));
    EXPECT_EQ(Drops(x, 1, DropReason::kChunk), before + 1) << static_cast<int>(type);
    x.Give(1, x.Forge(0, x.HeaderOf(0, 1, type), {}, std::span(entry).first(11)));
    EXPECT_EQ(Drops(x, 1, DropReason::kPayload), half + 1) << static_cast<int>(type);
  }
}

// Node 1 takes over a chunk of node 0. Only node 2 has the last position. The chunk has no
// master until node 2 has sent it.
TEST(Exchange, TakesAReturnThatIsNotFiniteForNoAnswer) {
  Cluster x({.nodes = 3, .size = 300});
  View survivors;
  survivors.members = {{1, Role::kSynced, 1, 0}, {2, Role::kSynced, 1, 0}};
  std::vector<uint16_t> owners(30);
  AssignOwners(survivors, owners);
  uint32_t chunk = 0;
  while (x.owner(chunk) != 0 || owners[chunk] != 1) ASSERT_LT(++chunk, 30u);
  const auto state = [&] { return x.exchange(1).table().chunks[chunk].state; };

  bool answers = false;
  x.delivers = [&](uint16_t, uint16_t to, const FrameBytes& frame) {
    const FrameHeader h = frame.decoded().header;
    if (h.type == FrameType::kPosition && h.source == 0 && h.chunk == chunk) return to == 2;
    return h.type != FrameType::kTakeoverState || answers;
  };
  x.Add(0, chunk * 10 + 3, 5);
  x.Run(5);
  x[0].stopped = true;
  x.Run(150);
  ASSERT_EQ(state(), ChunkState::kTakingOver);
  FrameHeader header = x.HeaderOf(2, 1, FrameType::kTakeoverState);
  header.chunk = chunk;
  header.number = x.exchange(2).table().chunks[chunk].number;
  header.ack_bytes = 8;
  header.length = 40;
  const std::vector<float> payload(10, kNan);
  x.Give(1, x.Forge(2, header, std::vector<std::byte>(8), std::as_bytes(std::span(payload))));
  EXPECT_EQ(Drops(x, 1, DropReason::kNonFinite), 1u);
  x.Run(5);
  EXPECT_EQ(state(), ChunkState::kTakingOver);
  answers = true;
  x.Run(150);
  EXPECT_EQ(state(), ChunkState::kMaster);
  EXPECT_EQ(x[1].weights[chunk * 10 + 3], 5);
}

}  // namespace
}  // namespace millrace
