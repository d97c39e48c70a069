// Effects of datagrams that a host forges in the name of one of two nodes. A blind spoofer sees no
// traffic; a spoofer on the path sees all of it. docs/transport.md has the table.
#include <gtest/gtest.h>

#include <string>

#include "test/transport/two_ends.h"

namespace millrace::test {
namespace {

// Bound on the time that a sender needs to resume after forged datagrams have stopped it: the
// longest probe interval and two round trips (one step each).
constexpr int64_t kRecoveryNs = 100 * kMs + 2 * kMs;
constexpr size_t kFramesInStep = 20;

// A datagram of a host without any knowledge: random numbers.
Datagram AnyDatagram(Rng* rng) {
  Datagram datagram;
  datagram.kind = static_cast<DatagramKind>(rng->Below(3));
  datagram.sequence = static_cast<uint32_t>(rng->Below(1000));
  datagram.tag = static_cast<uint16_t>(rng->Next());
  datagram.control = {datagram.sequence, rng->Next64(), rng->Next64(),
                      static_cast<uint32_t>(rng->Below(2000))};
  return datagram;
}

TEST(BlindSpoofer, StopsNoStream) {
  TwoEnds ends;
  Rng rng(1, {});
  for (int ms = 0; ms < 2000; ++ms) {
    // Forged datagrams arrive before the session is established, and before and after the sender's
    // own.
    const auto forge = [&] {
      for (int i = 0; i < 5; ++i) {
        Datagram probe = AnyDatagram(&rng);
        probe.kind = DatagramKind::kProbe;
        ends.wire.Forge(0, 1, probe);
      }
    };
    forge();
    ends.Send(kFramesInStep);
    ends.SenderWaits();
    forge();
    ends.Receive();
    ends.clock.AdvanceNs(kMs);
  }
  EXPECT_GE(ends.accepted, 1990 * kFramesInStep);
  EXPECT_EQ(ends.received, ends.accepted);
}

TEST(BlindSpoofer, MakesNoSenderOverrunItsReceiver) {
  TwoEnds ends;
  for (int i = 0; i < 20; ++i) ends.Step(kFramesInStep);
  const size_t before = ends.Send(1000);
  EXPECT_LE(before, TwoEnds::kWindow);
  // One forged credit for every possible tag.
  Rng rng(2, {});
  for (uint32_t tag = 0; tag < 65536; ++tag) {
    Datagram credit = AnyDatagram(&rng);
    credit.kind = DatagramKind::kCredit;
    credit.control.sequence = static_cast<uint32_t>(ends.accepted);
    credit.control.echo = credit.control.echo << 16 | tag;
    ends.wire.Forge(1, 0, credit);
    EXPECT_EQ(ends.Send(1), 0u);
  }
  ends.Receive();
  EXPECT_EQ(ends.Overruns(), 0u);
  EXPECT_EQ(ends.received, ends.accepted);
}

TEST(BlindSpoofer, KeepsNoDeadPeerAlive) {
  TwoEnds ends;
  for (int i = 0; i < 20; ++i) ends.Step(kFramesInStep);
  ends.wire.cut = true;
  for (const NodeId node : {0, 1}) ends.wire.Clear(node);
  Rng rng(3, {});
  int64_t waited_ms = 0;
  for (; ends.Unreachable() == 0 && waited_ms < 10'000; ++waited_ms) {
    for (int i = 0; i < 10; ++i) ends.wire.Forge(1, 0, AnyDatagram(&rng));
    ends.Send(1);
    ends.SenderWaits();
    std::array<InFrame, 16> frames;
    while (ends.end(0).Receive(frames) > 0) ends.end(0).Release();
    ends.clock.AdvanceNs(kMs);
  }
  EXPECT_LT(waited_ms, 2200) << "silence_ms is 2000";
}

// A forged datagram causes at most one datagram of the same length in reply, and no state.
TEST(BlindSpoofer, IsAnsweredByOneDatagramAtMost) {
  TwoEnds ends;
  for (int i = 0; i < 20; ++i) ends.Step(kFramesInStep);
  Rng rng(4, {});
  const uint64_t before = ends.wire.posted[0] + ends.wire.posted[1];
  constexpr uint64_t kForged = 10'000;
  for (uint64_t i = 0; i < kForged; ++i) {
    Datagram datagram = AnyDatagram(&rng);
    datagram.kind = i % 2 ? DatagramKind::kProbe : DatagramKind::kCredit;
    const auto to = static_cast<NodeId>(i / 2 % 2);
    ends.wire.Forge(1 - to, to, datagram);
    ends.SenderWaits();
    ends.Receive();
  }
  EXPECT_LE(ends.wire.posted[0] + ends.wire.posted[1] - before, kForged / 2);
}

// Authenticating frames is up to the receiver's caller, so anyone may send some. A forged frame
// with the right tag (one of 65,536) and a number within reach can make credits too large until the
// next probe.
TEST(BlindSpoofer, AForgedFrameThatGuessesTheTagStallsAStreamNoLongerThanAProbe) {
  TwoEnds ends;
  for (int i = 0; i < 20; ++i) ends.Step(kFramesInStep);
  uint16_t tag = 0;
  ends.wire.seen = [&](NodeId from, NodeId, const Datagram& datagram) {
    if (from == 0 && datagram.kind == DatagramKind::kFrame) tag = datagram.tag;
  };
  ends.Step(1);
  for (const uint32_t ahead : {1u, 100u, 128u, 129u, 1u << 20, 1u << 31, 0u - 100}) {
    Datagram frame;
    frame.tag = tag;
    frame.sequence = static_cast<uint32_t>(ends.accepted) + ahead;
    ends.wire.Forge(0, 1, frame);
    const uint64_t before = ends.accepted;
    int64_t ms = 0;
    for (; ends.accepted < before + 1000 && ms < 1000; ++ms) ends.Step(kFramesInStep);
    EXPECT_LE(ms, 1000 / static_cast<int64_t>(kFramesInStep) + 10) << ahead;
    EXPECT_EQ(ends.Overruns(), 0u);
  }
}

// State known to an eavesdropper.
struct OnFrame {
  ControlMessage credit, probe;  // the last ones seen
  uint32_t sent = 0;
  uint16_t tag = 0;

  void Listen(FakeWire* wire) {
    wire->seen = [this](NodeId from, NodeId, const Datagram& datagram) {
      if (from == 1 && datagram.kind == DatagramKind::kCredit) credit = datagram.control;
      if (from == 0 && datagram.kind == DatagramKind::kProbe) probe = datagram.control;
      if (from == 0 && datagram.kind == DatagramKind::kFrame) {
        sent = datagram.sequence;
        tag = datagram.tag;
      }
    };
  }
};

struct Forgery {
  std::string name;
  NodeId to;
  std::function<Datagram(const OnFrame&)> make;
};
void PrintTo(const Forgery& forgery, std::ostream* out) { *out << forgery.name; }

std::vector<Forgery> Forgeries() {
  const auto credit = [](uint32_t beyond, uint32_t window) {
    return [=](const OnFrame& observed) {
      return FakeLink::Control(
          DatagramKind::kCredit,
          {observed.sent - beyond, observed.credit.session, observed.probe.session, window});
    };
  };
  const auto probe = [](uint64_t session, uint32_t ahead) {
    return [=](const OnFrame& observed) {
      return FakeLink::Control(
          DatagramKind::kProbe,
          {observed.sent + ahead, observed.probe.session ^ session, observed.credit.session, 0});
    };
  };
  const auto frame = [](uint32_t ahead) {
    return [=](const OnFrame& observed) {
      Datagram datagram;
      datagram.tag = observed.tag;
      datagram.sequence = observed.sent + ahead;
      return datagram;
    };
  };
  return {{"ACreditForAllThatWasSent", 0, credit(0, 1u << 20)},
          {"ACreditThatAllowsOneFrame", 0, credit(0, 1)},
          {"AnOldCredit", 0, credit(50, 1)},
          {"AChallengeOfAnotherSession", 0,
           [](const OnFrame& observed) {
             return FakeLink::Control(DatagramKind::kCredit, {0, observed.credit.session ^ 0xabc,
                                                              observed.probe.session, 0});
           }},
          {"AProbeOfAnotherSession", 1, probe(0xabcd, 0)},
          {"AProbeFarAhead", 1, probe(0, 1u << 30)},
          {"AProbeFurtherAheadThanHalfOfAllNumbers", 1, probe(0, 3u << 30)},
          {"AProbeFarBehind", 1, probe(0, 0u - 5000)},
          {"AFrameAhead", 1, frame(100)},
          {"AFrameFarAhead", 1, frame(1u << 30)}};
}

class SpooferOnThePath : public testing::TestWithParam<Forgery> {};

// While it goes on, the attack may stop the stream, as an attacker that drops packets could.
TEST_P(SpooferOnThePath, DoesNoHarmThatLasts) {
  TwoEnds ends;
  OnFrame observed;
  observed.Listen(&ends.wire);
  for (int i = 0; i < 20; ++i) ends.Step(kFramesInStep);
  for (int ms = 0; ms < 5000; ++ms) {
    const NodeId to = GetParam().to;
    for (int i = 0; i < 3; ++i) ends.wire.Forge(1 - to, to, GetParam().make(observed));
    ends.Step(kFramesInStep);
  }
  // Processes the datagrams still in flight.
  ends.Receive();
  ends.SenderWaits();
  const int64_t stopped_ns = ends.clock.NowNs();
  const uint64_t accepted = ends.accepted, received = ends.received, overruns = ends.Overruns();
  int64_t first_ns = -1;
  for (int ms = 0; ms < 1000; ++ms) {
    ends.Step(kFramesInStep);
    if (first_ns < 0 && ends.accepted > accepted) first_ns = ends.clock.NowNs() - stopped_ns;
  }
  EXPECT_GE(first_ns, 0) << "it is stopped for ever";
  EXPECT_LE(first_ns, kRecoveryNs);
  // From then on the stream has its full rate, and nothing is lost.
  EXPECT_GE(ends.accepted - accepted, 880 * kFramesInStep);
  EXPECT_LE(ends.accepted - accepted, ends.received - received + TwoEnds::kWindow);
  EXPECT_EQ(ends.Overruns(), overruns);
  EXPECT_EQ(ends.Unreachable(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Forgeries, SpooferOnThePath, testing::ValuesIn(Forgeries()),
                         [](const auto& info) { return info.param.name; });

TEST(SpooferOnThePath, KeepsADeadPeerAliveForNoLongerThanItGoesOn) {
  TwoEnds ends;
  OnFrame observed;
  observed.Listen(&ends.wire);
  for (int i = 0; i < 20; ++i) ends.Step(kFramesInStep);
  ends.wire.cut = true;
  const auto step = [&] {
    ends.Send(1);
    ends.SenderWaits();
    ends.clock.AdvanceNs(kMs);
  };
  for (int ms = 0; ms < 5000; ++ms) {
    ends.wire.Forge(
        1, 0,
        FakeLink::Control(DatagramKind::kCredit,
                          {0, observed.credit.session, observed.probe.session, TwoEnds::kWindow}));
    step();
  }
  EXPECT_EQ(ends.Unreachable(), 0u);
  int64_t ms = 0;
  for (; ends.Unreachable() == 0 && ms < 10'000; ++ms) step();
  EXPECT_LE(ms, 2000 + 100 + 2);
}

// Any mixture of true and false values.
TEST(SpooferOnThePath, WhoSaysAnythingDoesNoHarmThatLasts) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    TwoEnds ends(seed, 0.05);
    OnFrame observed;
    observed.Listen(&ends.wire);
    for (int i = 0; i < 50; ++i) ends.Step(kFramesInStep);
    Rng rng(seed, {9});
    const auto near = [&](uint32_t number) {
      constexpr uint32_t kOffsets[] = {0, 1, 20, 64, 1000, 1u << 30, 1u << 31};
      const uint32_t offset = kOffsets[rng.Below(7)];
      return rng.Below(2) ? number + offset : number - offset;
    };
    for (int i = 0; i < 1000; ++i) {
      const uint64_t known[] = {observed.credit.session, observed.probe.session, 0, rng.Next64()};
      Datagram datagram;
      datagram.kind = static_cast<DatagramKind>(rng.Below(3));
      datagram.sequence = near(observed.sent);
      datagram.tag = observed.tag;
      datagram.control = {near(observed.sent), known[rng.Below(4)], known[rng.Below(4)],
                          near(static_cast<uint32_t>(rng.Below(100)))};
      const auto to = static_cast<NodeId>(rng.Below(2));
      ends.wire.Forge(1 - to, to, datagram);
      if (rng.Below(3) == 0) ends.Step(kFramesInStep);
    }
    std::array<InFrame, 16> frames;
    while (ends.end(0).Receive(frames) > 0) ends.end(0).Release();
    ends.wire.loss = 0;
    ends.Receive();
    ends.SenderWaits();
    const int64_t stopped_ns = ends.clock.NowNs();
    const uint64_t received = ends.received;
    while (ends.received == received && ends.clock.NowNs() < stopped_ns + 2 * kRecoveryNs) {
      ends.Step(kFramesInStep);
    }
    EXPECT_LE(ends.clock.NowNs() - stopped_ns, kRecoveryNs) << "seed " << seed;
    const uint64_t accepted = ends.accepted;
    for (int ms = 0; ms < 200; ++ms) ends.Step(kFramesInStep);
    EXPECT_GE(ends.accepted - accepted, 180 * kFramesInStep) << "seed " << seed;
  }
}

}  // namespace
}  // namespace millrace::test
