// How long a sender waits for credit when frames, credits and probes are all subject to loss.
#include <gtest/gtest.h>

#include <utility>

#include <algorithm>

#include "test/transport/two_ends.h"

namespace millrace::test {
namespace {

// When the sender sends its nth probe, relative to the refusal (docs/transport.md).
int64_t ProbeNs(uint64_t number) {
  int64_t at_ns = 0;
  for (int64_t interval_ns = 2 * kMs; number > 0; --number) {
    at_ns += interval_ns;
    interval_ns = std::min(2 * interval_ns, 100 * kMs);
  }
  return at_ns;
}

// Credit arrives with the first probe that is delivered and answered, or earlier.
TEST(LossyControl, ASenderWaitsNoLongerThanUntilTheFirstProbeThatIsAnswered) {
  for (const double loss : {0.01, 0.1, 0.4, 0.6}) {
    for (uint64_t seed = 1; seed <= 300; ++seed) {
      TwoEnds ends(seed, loss, 7, 3'600'000 * kMs);
      ends.Step(1);
      for (int round = 0; round < 10; ++round) {
        ends.Send(1000);
        const int64_t refused_ns = ends.clock.NowNs();
        ends.SenderWaits();
        // All datagrams of the sender that are not frames are probes.
        const uint64_t before = ends.wire.control_posted[0];
        do {
          ends.Receive();
          if (ends.SenderWaits()) break;
          ends.clock.AdvanceNs(kMs);
        } while (ends.clock.NowNs() < refused_ns + 3'600'000 * kMs);
        // Each probe is one attempt, and no probe is late by a factor of two.
        const uint64_t probes = ends.wire.control_posted[0] - before;
        ASSERT_LE(ends.clock.NowNs() - refused_ns, ProbeNs(probes) + 2 * kMs)
            << "loss " << loss << ", seed " << seed << ", round " << round;
      }
    }
  }
}

TEST(LossyControl, NoStreamStandsStillWhateverIsLost) {
  constexpr uint64_t kFrames = 500;
  for (const double loss : {0.1, 0.4, 0.6}) {
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      TwoEnds ends(seed, loss, 16, 3'600'000 * kMs);
      for (int64_t ms = 0; ends.accepted < kFrames && ms < 1'000'000; ++ms) ends.Step(8);
      ASSERT_GE(ends.accepted, kFrames) << "loss " << loss << ", seed " << seed;
      ASSERT_EQ(ends.Overruns(), 0u);
    }
  }
}

// A segment that rests between its passes finds frames to receive in each of them, and never waits.
TEST(LossyControl, ASenderThatNeverWaitsGoesOnWithinASilence) {
  constexpr int64_t kPassMs = 20, kSilenceMs = 100;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    TwoEnds ends(seed, 0.4, 16, kSilenceMs * kMs);
    int refused = 0;
    for (int pass = 0; pass < 1000; ++pass) {
      refused = ends.Send(8) > 0 ? 0 : refused + 1;
      ASSERT_LE(refused, kSilenceMs / kPassMs + 2) << "seed " << seed << ", pass " << pass;
      std::array<InFrame, 16> frames;
      ends.end(0).Receive(frames);
      ends.Receive();
      ends.clock.AdvanceNs(kPassMs * kMs);
    }
  }
}

TEST(LossyControl, EitherEndMayStartAnewWhateverIsLost) {
  for (const double loss : {0.0, 0.4}) {
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      TwoEnds ends(seed, loss, 16, 3'600'000 * kMs);
      for (const size_t node : {1, 0, 1, 0}) {
        const uint64_t until = ends.accepted + 100;
        for (int64_t ms = 0; ends.accepted < until && ms < 1'000'000; ++ms) ends.Step(8);
        ASSERT_GE(ends.accepted, until) << "loss " << loss << ", seed " << seed;
        ends.Start(node);
      }
    }
  }
}

// The receiver asks the sender for its session, and the sender replies without a further request.
TEST(LossyControl, ASenderThatRestartsIsAcceptedAtOnce) {
  TwoEnds ends;
  for (int ms = 0; ms < 10; ++ms) ends.Step(8);
  ends.Start(0);
  const uint64_t before = ends.accepted;
  for (int round = 0; round < 10; ++round) {
    ends.Send(1000);
    ends.Receive();
    ends.SenderWaits();
  }
  EXPECT_GE(ends.accepted, before + 4 * TwoEnds::kWindow);
}

// Only the peer knows which of the frames in flight it received before it became unresponsive.
TEST(LossyControl, APeerThatIsHeardAgainIsAskedSoon) {
  TwoEnds ends(1, 0, TwoEnds::kWindow, 100 * kMs);
  const auto say = [&ends] {
    const std::array<std::byte, 16> bytes{};
    const OutFrame frame = {0, {}, bytes};
    EXPECT_EQ(ends.end(1).Send({&frame, 1}).accepted, 1u);
    std::array<InFrame, 16> frames;
    EXPECT_EQ(ends.end(0).Receive(frames), 1u);
    ends.end(0).Release();
  };
  for (int ms = 0; ms < 10; ++ms) ends.Step(8);
  say();
  ends.wire.cut = true;
  for (int ms = 0; ms < 300; ++ms) ends.Step(8);
  const uint64_t unreachable = ends.Unreachable();
  EXPECT_GT(unreachable, 0u);
  ends.wire.cut = false;
  say();
  for (int ms = 0; ms <= 10; ++ms) {
    ends.SenderWaits();
    ends.Receive();
    ends.clock.AdvanceNs(kMs);
  }
  EXPECT_EQ(ends.Send(TwoEnds::kWindow), size_t{TwoEnds::kWindow});
  EXPECT_EQ(ends.Unreachable(), unreachable);
}

// A node that receives nothing still sends frames and probes. Frames to it are dropped after the
// silence, so that others that share its multicasts do not wait for it, until it receives again.
TEST(LossyControl, ADeafPeerHoldsItsSenderUpForOneSilenceOnly) {
  TwoEnds ends(1, 0, TwoEnds::kWindow, 100 * kMs);
  const std::array<std::byte, 16> bytes{};
  const OutFrame from_peer = {0, {}, bytes};
  const auto runs = [&](int ms) {
    int waited = 0;
    for (; ms > 0; --ms) {
      ends.end(1).Send({&from_peer, 1});
      std::array<InFrame, 16> frames;
      while (ends.end(0).Receive(frames) > 0) ends.end(0).Release();
      ends.Step(8);
      waited += std::exchange(ends.accepted, 0) < 8;
    }
    return waited;
  };
  EXPECT_EQ(runs(20), 0);
  ends.wire.deaf = 1;
  EXPECT_LE(runs(1000), 100 + 3);
  EXPECT_EQ(runs(1000), 0);
  EXPECT_GT(ends.Unreachable(), 8u * 1800);
  ends.wire.deaf = -1;
  runs(110);  // until the next probe
  const uint64_t unreachable = ends.Unreachable(), received = ends.received;
  EXPECT_EQ(runs(100), 0);
  EXPECT_EQ(ends.Unreachable(), unreachable);
  EXPECT_GE(ends.received, received + 8u * 99);
}

TEST(LossyControl, ACreditThatFoundNoRoomIsSentOnceThereIsSome) {
  TwoEnds ends;
  ends.Send(1000);
  ends.wire.no_credits = true;
  ends.Receive();
  EXPECT_FALSE(ends.SenderWaits());
  ends.wire.no_credits = false;
  ends.Receive();
  EXPECT_TRUE(ends.SenderWaits());
}

// A probe that overtook frames still waiting in the batch would declare them lost.
TEST(LossyControl, AProbeDoesNotTellOfFramesThatAreStillToBeSent) {
  TwoEnds ends;
  uint32_t last = 0;
  Datagram challenge;
  challenge.kind = DatagramKind::kCredit;
  uint64_t probes = 0;
  ends.wire.seen = [&](NodeId from, NodeId, const Datagram& datagram) {
    if (from == 1) challenge.control.session = datagram.control.session;
    if (from != 0) return;
    if (datagram.kind == DatagramKind::kProbe) challenge.control.echo = datagram.control.session;
    probes += datagram.kind == DatagramKind::kProbe;
    if (datagram.kind == DatagramKind::kFrame) last = datagram.sequence;
    if (datagram.kind == DatagramKind::kProbe) {
      EXPECT_EQ(datagram.control.sequence, last);
    }
  };
  const std::array<std::byte, 16> bytes{};
  const std::vector<OutFrame> frames(TwoEnds::kWindow + 1, OutFrame{1, {}, bytes});
  for (int i = 0; i < 50; ++i) {
    // The receiver's challenge is read in the middle of a batch, when the window is used up.
    ends.end(0).Send(frames);
    ends.Receive();
    ends.SenderWaits();
    ends.wire.Forge(1, 0, challenge);
  }
  EXPECT_GE(probes, 50u);
}

// A host that sends more than this node can read does not keep a call from returning.
TEST(LossyControl, ACallEndsHoweverMuchArrives) {
  TwoEnds ends;
  ends.Send(1000);
  ends.wire.Clear(0);
  constexpr int kMax = 100'000;
  int answers = 0;
  ends.wire.seen = [&](NodeId from, NodeId, const Datagram&) {
    // An answer to each answer.
    Datagram probe;
    probe.kind = DatagramKind::kProbe;
    if (from == 0 && ++answers < kMax) ends.wire.Forge(1, 0, probe);
  };
  Datagram probe;
  probe.kind = DatagramKind::kProbe;
  ends.wire.Forge(1, 0, probe);
  EXPECT_EQ(ends.Send(1), 0u);
  std::array<InFrame, 16> frames;
  EXPECT_EQ(ends.end(0).Receive(frames), 0u);
  EXPECT_LT(answers, kMax);
}

}  // namespace
}  // namespace millrace::test
