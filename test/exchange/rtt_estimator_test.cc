// Retransmit timeouts derived from observed replies.
#include "exchange/protocol/rtt_estimator.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr int64_t kMs = 1'000'000, kMin = 20 * kMs;

// Twenty replies per 40 ms: nineteen after 10 ms, the last after 40 ms. The mean and deviation
// of all samples would decay before the next long one.
TEST(RetransmitTimer, WaitsForTheLongestOfEachRound) {
  RetransmitTimer trip;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 20; ++i) {
      trip.Sample((40 * round + 2 * i) * kMs, i == 19 ? 40 * kMs : 10 * kMs);
      if (round > 40) {
        ASSERT_GE(trip.Timeout(kMin), 40 * kMs) << "round " << round;
        ASSERT_LE(trip.Timeout(kMin), 80 * kMs) << "round " << round;
      }
    }
  }
}

TEST(RetransmitTimer, IsNeverShorterThanTheLeastAndDoublesUntilAnAnswerComes) {
  RetransmitTimer trip;
  EXPECT_EQ(trip.Timeout(kMin), kMin);
  for (int i = 0; i < 50; ++i) trip.Sample(i * kMs, kMs);
  EXPECT_EQ(trip.Timeout(kMin), kMin);
  trip.TimedOut(100 * kMs, kMin);
  trip.TimedOut(101 * kMs, kMin);  // same timeout period
  EXPECT_EQ(trip.Timeout(kMin), 2 * kMin);
  trip.TimedOut(140 * kMs, 2 * kMin);
  EXPECT_EQ(trip.Timeout(kMin), 4 * kMin);
  trip.Sample(150 * kMs, kMs);
  EXPECT_EQ(trip.Timeout(kMin), kMin);
}

TEST(MasterReplies, ReportByHowMuchADiffIsOvertaken) {
  MasterReplies master;
  master.RecordReply(70 * kMs, 50 * kMs, 50 * kMs);
  EXPECT_EQ(master.Overtaken(20 * kMs), 30 * kMs);
  EXPECT_EQ(master.Overtaken(60 * kMs), -10 * kMs);
  // A reply to an earlier diff changes nothing, whichever of its transmissions is answered.
  master.RecordReply(80 * kMs, 40 * kMs, 40 * kMs);
  master.RecordReply(90 * kMs, 45 * kMs, 85 * kMs);
  EXPECT_EQ(master.Overtaken(20 * kMs), 30 * kMs);
  master.RecordReply(100 * kMs, 65 * kMs, 95 * kMs);
  EXPECT_EQ(master.Overtaken(20 * kMs), 45 * kMs);
}

// Most replies come after 5 ms. Every 60 ms one reply comes 60 ms behind a diff sent later.
TEST(MasterReplies, LearnByHowMuchThoseAreOvertakenThatAreNotLost) {
  MasterReplies master;
  EXPECT_EQ(master.ReorderingWindow(kMin), kMin);
  for (int64_t sent = 0; sent < 3000 * kMs; sent += 10 * kMs) {
    master.RecordReply(sent + 5 * kMs, sent, sent);
    if (sent % (60 * kMs) == 0 && sent > 0) {
      master.RecordReply(sent + 6 * kMs, sent - 60 * kMs, sent - 60 * kMs);
    }
  }
  EXPECT_GE(master.ReorderingWindow(kMin), 60 * kMs);
  EXPECT_LE(master.ReorderingWindow(kMin), 120 * kMs);
}

int Tries(MasterReplies* master, int64_t now, int64_t pause) {
  int tries = 0;
  while (tries < 1000 && master->Probe(now, pause)) ++tries;
  return tries;
}

TEST(MasterReplies, AllowAFewProbesAPauseAndMoreOnceTheseAreAnswered) {
  MasterReplies master;
  EXPECT_EQ(Tries(&master, 100 * kMs, 20 * kMs), 8);
  EXPECT_EQ(Tries(&master, 119 * kMs, 20 * kMs), 0);
  EXPECT_EQ(Tries(&master, 120 * kMs, 40 * kMs), 8);
  EXPECT_EQ(Tries(&master, 159 * kMs, 40 * kMs), 0);
  for (int i = 0; i < 8; ++i) master.RecordReply(150 * kMs, 90 * kMs, 120 * kMs);
  EXPECT_EQ(Tries(&master, 159 * kMs, 40 * kMs), 16);
  for (int i = 0; i < 16; ++i) master.RecordReply(170 * kMs, 90 * kMs, 159 * kMs);
  EXPECT_EQ(Tries(&master, 170 * kMs, 40 * kMs), 32);
}

// Prompt replies show that the master responds; the next timeout period starts with few probes
// again.
TEST(MasterReplies, BeginEachTimeoutWithAFewProbes) {
  MasterReplies master;
  EXPECT_EQ(Tries(&master, 0, 20 * kMs), 8);
  for (int i = 0; i < 100; ++i) master.RecordReply(10 * kMs, 0, 5 * kMs);
  for (int i = 0; i < 1000; ++i) master.RecordReply((20 + i) * kMs, (15 + i) * kMs, (15 + i) * kMs);
  EXPECT_EQ(Tries(&master, 2000 * kMs, 20 * kMs), 8);
}

// The reply to a diff that waited for a takeover is no sample for later diffs.
TEST(MasterReplies, DoNotMeasureWhatWasSentBeforeItBecameMaster) {
  MasterReplies master;
  master.RecordReply(60 * kMs, 50 * kMs, 50 * kMs);
  const int64_t before = master.round_trip.Timeout(kMs);
  master.BecameMaster(15'000 * kMs);
  EXPECT_FALSE(master.Measures(70 * kMs));
  master.RecordReply(15'010 * kMs, 70 * kMs, 70 * kMs);
  EXPECT_EQ(master.round_trip.Timeout(kMs), before);
  EXPECT_TRUE(master.Measures(15'000 * kMs));
}

// A lost position may have acknowledged the diff before.
TEST(MasterReplies, DoNotMeasureWhatMayHaveBeenAnsweredBefore) {
  MasterReplies master;
  master.RecordReply(60 * kMs, 50 * kMs, 50 * kMs);
  const int64_t before = master.round_trip.Timeout(kMs);
  master.RecordReply(900 * kMs, 70 * kMs, 70 * kMs, false);
  EXPECT_EQ(master.round_trip.Timeout(kMs), before);
  EXPECT_EQ(master.Overtaken(0), 70 * kMs);
}

// Where frames are lost, diffs that are sent again are the only ones in the end.
TEST(MasterReplies, MeasureDiffsThatWereSentAgainAtTheEnd) {
  MasterReplies master;
  for (int64_t sent = 0; sent < 10'000 * kMs; sent += 100 * kMs) {
    master.RecordReply(sent + 1000 * kMs, sent, sent);
  }
  const auto answer = [&](int64_t sent) {
    master.RecordReply(sent + 5 * kMs, sent - 50 * kMs, sent);
  };
  for (int i = 0; i < 40; ++i) answer((12'000 + i) * kMs);
  EXPECT_GE(master.round_trip.Timeout(kMs), 1000 * kMs);
  master.round_trip.AtEnd();
  for (int i = 0; i < 60; ++i) answer((13'000 + i) * kMs);
  EXPECT_LE(master.round_trip.Timeout(kMs), 50 * kMs);
  EXPECT_GE(master.round_trip.Timeout(kMs), 5 * kMs);
}

TEST(RetransmitTimer, ForgetsOneVeryLateAnswer) {
  RetransmitTimer trip;
  trip.Sample(15'000 * kMs, 14'000 * kMs);
  EXPECT_GT(trip.Timeout(kMs), 14'000 * kMs);
  for (int64_t now = 15'000; now < 75'000; now += 20) trip.Sample(now * kMs, 20 * kMs);
  EXPECT_LT(trip.Timeout(kMs), 1'000 * kMs);
}

}  // namespace
}  // namespace millrace
