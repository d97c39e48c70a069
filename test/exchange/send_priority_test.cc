#include "exchange/protocol/send_priority.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace millrace {
namespace {

constexpr int64_t kRoundNs = 1'000'000;

// How often each chunk is sent in `rounds` rounds if chunk i makes rates[i] of progress per
// round.
std::vector<int> Sent(SendPriority* priority, const std::vector<float>& rates, int rounds) {
  std::vector<int> sent(rates.size());
  std::vector<int> since(rates.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < rates.size(); ++i) {
      priority->Merged(i, rates[i]);
      ++since[i];
      if (!priority->IsTurn(i)) continue;
      priority->Sent(i, since[i] * kRoundNs);
      since[i] = 0;
      ++sent[i];
    }
    priority->EndRound();
  }
  return sent;
}

TEST(SendPriority, ForgetsProgressThatIsNotFinite) {
  for (const float huge : {INFINITY, NAN, 3e38f}) {
    SendPriority priority;
    priority.Reset(2);
    priority.Merged(0, huge);
    const std::vector<int> first = Sent(&priority, {1, 1}, 400);
    EXPECT_GT(first[0], 100);
    EXPECT_GE(first[1], 100);
    EXPECT_EQ(Sent(&priority, {1, 1}, 10), (std::vector<int>{10, 10}));
  }
}

TEST(SendPriority, SendsAllChunksWhileNothingIsKnown) {
  SendPriority priority;
  priority.Reset(3);
  EXPECT_EQ(Sent(&priority, {0, 0, 0}, 10), (std::vector<int>{10, 10, 10}));
}

TEST(SendPriority, SendsByTheRootOfTheRate) {
  SendPriority priority;
  priority.Reset(3);
  Sent(&priority, {1, 0.25f, 0.1f}, 100);
  const std::vector<int> sent = Sent(&priority, {1, 0.25f, 0.1f}, 1200);
  EXPECT_EQ(sent[0], 1200);
  EXPECT_NEAR(sent[1], 600, 10);
  // 0.32 per round; but credit beyond one turn is dropped, so that it is every fourth round.
  EXPECT_NEAR(sent[2], 300, 10);
}

TEST(SendPriority, SendsEveryChunkInTheEnd) {
  SendPriority priority;
  priority.Reset(2);
  Sent(&priority, {1, 0}, 100);
  const auto rounds = static_cast<int>(40 * SendPriority::kMaxRounds);
  EXPECT_EQ(Sent(&priority, {1, 0}, rounds), (std::vector<int>{rounds, 40}));
}

TEST(SendPriority, FollowsProgressThatMovesToOtherChunks) {
  SendPriority priority;
  priority.Reset(2);
  Sent(&priority, {1, 0.01f}, 200);
  Sent(&priority, {0.01f, 1}, 200);
  const std::vector<int> sent = Sent(&priority, {0.01f, 1}, 100);
  EXPECT_LE(sent[0], 26);
  EXPECT_EQ(sent[1], 100);
}

TEST(SendPriority, CountsAllAlikeAgainAfterAReset) {
  SendPriority priority;
  priority.Reset(2);
  Sent(&priority, {1, 0.01f}, 100);
  priority.Reset(3);
  EXPECT_EQ(Sent(&priority, {0, 0, 0}, 5), (std::vector<int>{5, 5, 5}));
}

}  // namespace
}  // namespace millrace
