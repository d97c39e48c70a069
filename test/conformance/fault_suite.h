// Every transport under the faulty decorator: each delivered frame is identical to one sent, or
// altered as the plan permits, and the decorator's counters match the outcome. Include it in one
// .cc of a test directory, as suite.h.
#ifndef MILLRACE_TEST_CONFORMANCE_FAULT_SUITE_H_
#define MILLRACE_TEST_CONFORMANCE_FAULT_SUITE_H_

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "base/clock.h"
#include "test/conformance/traffic.h"
#include "test/support/fake_clock.h"
#include "transport/faulty/transport.h"

namespace millrace::test {

struct FaultCase {
  std::string name;
  FaultRates rates;
};

inline std::vector<FaultCase> SingleFaults() {
  return {{"Nothing", {}},
          {"Drop", {.drop = 0.2}},
          {"Duplicate", {.duplicate = 0.2}},
          {"Reorder", {.reorder = 0.2}},
          {"Delay", {.delay = 0.2}},
          {"Truncate", {.truncate = 0.2}},
          {"Corrupt", {.corrupt = 0.2}},
          {"Everything",
           {.drop = 0.1,
            .duplicate = 0.1,
            .reorder = 0.1,
            .delay = 0.1,
            .truncate = 0.1,
            .corrupt = 0.1}}};
}

inline void PrintTo(const FaultCase& fault, std::ostream* out) { *out << fault.name; }

class FaultTest : public testing::TestWithParam<std::tuple<TransportCase, FaultCase, Direction>> {
 protected:
  static constexpr int kNodes = 3;
  static constexpr int64_t kDelayNs = 1'000'000;

  void SetUp() override {
    const std::string reason = transport().why_not();
    if (!reason.empty()) GTEST_SKIP() << reason;
    FaultPlan plan;
    plan.seed = Seed();
    plan.clock = &clock_;
    plan.delay_max_ns = kDelayNs;
    plan.hold_frames = 32;
    (direction() == Direction::kSend ? plan.send : plan.receive) = rates();
    for (auto& end : transport().make({kNodes, false, &clock_})) {
      ends_.push_back(std::make_unique<FaultyTransport>(std::move(end), plan));
    }
    received_.resize(kNodes);
  }

  const TransportCase& transport() const { return std::get<0>(GetParam()); }
  const FaultRates& rates() const { return std::get<1>(GetParam()).rates; }
  Direction direction() const { return std::get<2>(GetParam()); }
  bool alters() const { return rates().truncate + rates().corrupt > 0; }

  // Polls all endpoints once and advances the time.
  void Step() {
    for (int node = 0; node < kNodes; ++node) {
      ends_[node]->Reclaim();
      for (Received& frame : Drain(ends_[node].get())) received_[node].push_back(std::move(frame));
    }
    clock_.AdvanceNs(kDelayNs / 10);
  }

  void SendFrames(uint64_t count, Rng* rng) {
    Guard guard;
    for (uint64_t i = 0; i < count; ++i) {
      const size_t most = std::min<size_t>(300, ends_[0]->max_frame_bytes());
      messages_.push_back(RandomBytes(24 + rng->Below(most - 24), rng));
      const int from = static_cast<int>(rng->Below(kNodes));
      const int to = (from + 1 + static_cast<int>(rng->Below(kNodes - 1))) % kNodes;
      const OutFrame frame = {static_cast<NodeId>(to), {}, messages_.back()};
      while (ends_[from]->Send({&frame, 1}).accepted == 0 && guard.Waiting("room")) Step();
      if (i % 8 == 7) Step();
    }
  }

  // Sends until the node has received a frame.
  void AwaitAnyAt(int node, const char* what, Rng* rng) {
    Guard guard;
    while (received_[node].empty() && guard.Waiting(what)) {
      SendFrames(1, rng);
      Step();
    }
  }

  // Whether every accepted frame was delivered or dropped.
  bool Settled() const {
    uint64_t transmitted = 0, arrived = 0;
    for (const auto& end : ends_) {
      for (Direction direction : {Direction::kSend, Direction::kReceive}) {
        const FaultCounts& counts = end->faults(direction);
        if (counts.taken + counts.duplicated != counts.dropped + counts.cut + counts.passed) {
          return false;
        }
      }
      transmitted += end->inner().counters().transmissions();
      arrived += end->inner().counters().frames_received();
    }
    return transmitted == arrived || !ends_[0]->inner().info().lossless;
  }

  void Settle() {
    Guard guard;
    while (!Settled() && guard.Waiting("frames to settle")) Step();
    for (int i = 0; i < 20; ++i) Step();
  }

  uint64_t Sum(std::atomic<uint64_t> FaultCounts::*count) const {
    uint64_t sum = 0;
    for (const auto& end : ends_) sum += end->faults(direction()).*count;
    return sum;
  }

  // Whether the plan can turn `sent` into `got`: a prefix of it with at most one byte changed.
  static bool MadeOf(const Bytes& got, const Bytes& sent) {
    if (got.size() > sent.size()) return false;
    size_t differing = 0;
    for (size_t i = 0; i < got.size(); ++i) differing += got[i] != sent[i];
    return differing <= 1;
  }

  void Judge();

  FakeClock clock_;
  std::vector<std::unique_ptr<FaultyTransport>> ends_;
  std::vector<std::vector<Received>> received_;
  std::vector<Bytes> messages_;
};

inline void FaultTest::Judge() {
  std::map<Bytes, uint64_t> copies;  // of each message as it was sent
  for (const Bytes& message : messages_) copies[message] = 0;
  uint64_t delivered = 0, altered = 0;
  for (const auto& frames : received_) {
    for (const Received& frame : frames) {
      ++delivered;
      const auto exact = copies.find(frame.bytes);
      if (exact != copies.end()) {
        ++exact->second;
        continue;
      }
      ++altered;
      EXPECT_TRUE(std::any_of(messages_.begin(), messages_.end(), [&](const Bytes& message) {
        return MadeOf(frame.bytes, message);
      })) << "nobody sent this";
    }
  }
  EXPECT_LE(altered, Sum(&FaultCounts::altered));
  if (!ends_[0]->inner().info().lossless) return;
  EXPECT_EQ(altered, Sum(&FaultCounts::altered));
  EXPECT_EQ(delivered,
            messages_.size() - Sum(&FaultCounts::dropped) + Sum(&FaultCounts::duplicated));
  if (alters()) return;
  uint64_t missing = 0, extra = 0;
  for (const auto& [message, count] : copies) {
    missing += count == 0;
    extra += count > 1 ? count - 1 : 0;
  }
  EXPECT_EQ(missing, Sum(&FaultCounts::dropped));
  EXPECT_EQ(extra, Sum(&FaultCounts::duplicated));
}

TEST_P(FaultTest, DeliversWhatWasSentOrWhatThePlanMadeOfItAndCountsIt) {
  Rng rng(Seed(), {3});
  const std::tuple<double, std::atomic<uint64_t> FaultCounts::*> kinds[] = {
      {rates().drop, &FaultCounts::dropped},       {rates().duplicate, &FaultCounts::duplicated},
      {rates().reorder, &FaultCounts::reordered},  {rates().delay, &FaultCounts::delayed},
      {rates().truncate, &FaultCounts::truncated}, {rates().corrupt, &FaultCounts::corrupted}};
  // A transport that loses frames may deliver some only after Settle has returned.
  const auto any_missing = [&] {
    return std::any_of(std::begin(kinds), std::end(kinds), [&](const auto& kind) {
      return std::get<0>(kind) > 0 && Sum(std::get<1>(kind)) == 0;
    });
  };
  Guard guard;
  do {
    SendFrames(600, &rng);
    Settle();
  } while (any_missing() && guard.Waiting("a fault of each kind"));
  Judge();
  for (const auto& [rate, count] : kinds) EXPECT_EQ(rate > 0, Sum(count) > 0);
}

TEST_P(FaultTest, KeepsACutPeerApartAndHealsAfterwards) {
  Rng rng(Seed(), {4});
  for (int other : {0, 1}) {
    ends_[2]->Partition(static_cast<NodeId>(other), true);
    ends_[other]->Partition(2, true);
  }
  SendFrames(200, &rng);
  const Bytes message = RandomBytes(50, &rng);
  for (auto& end : ends_) ASSERT_TRUE(SendOne(end.get(), {kAllNodes, {}, message}));
  Settle();
  AwaitAnyAt(0, "a frame beside the partition", &rng);
  EXPECT_TRUE(received_[2].empty());
  for (const Received& frame : received_[0]) EXPECT_EQ(frame.from, 1);
  for (const Received& frame : received_[1]) EXPECT_EQ(frame.from, 0);
  for (auto& end : ends_) {
    for (NodeId peer = 0; peer < kNodes; ++peer) end->Partition(peer, false);
  }
  AwaitAnyAt(2, "a frame after the partition", &rng);
}

inline std::string FaultCaseName(const testing::TestParamInfo<FaultTest::ParamType>& info) {
  return std::get<0>(info.param).name + std::get<1>(info.param).name +
         (std::get<2>(info.param) == Direction::kSend ? "WhenSending" : "WhenReceiving");
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CONFORMANCE_FAULT_SUITE_H_
