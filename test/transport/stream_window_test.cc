// Windows and credits, without sockets.
#include "transport/stream_window.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint64_t kSession = 0x123456789abc004d;
constexpr uint16_t kTag = TagOf(kSession);

// Uses up the window; returns the last number taken.
uint32_t TakeAll(SendWindow* window) {
  while (window->Room() > 0) window->Take();
  return window->sent();
}

TEST(StreamWindow, AllowsAWindowOfFramesBeyondWhatIsConfirmed) {
  SendWindow window(10, 1000 * kMs);
  EXPECT_EQ(TakeAll(&window), 10u);
  window.Credit(4, 10);
  EXPECT_EQ(window.Room(), 4u);
  EXPECT_EQ(TakeAll(&window), 14u);
  window.GiveBack(2);
  EXPECT_EQ(window.Room(), 2u);
  EXPECT_EQ(window.Take(), 13u);
}

TEST(StreamWindow, StartsCarefullyAndThenGoesByWhatTheReceiverAllows) {
  SendWindow window(1000, 1000 * kMs);
  EXPECT_EQ(TakeAll(&window), SendWindow::kFirstWindow);
  window.Credit(24, 500);
  EXPECT_EQ(window.Room(), 500u);
  window.Credit(24, 5000);
  EXPECT_EQ(window.Room(), 1000u) << "its own limit";
  window.Credit(24, 0);
  EXPECT_EQ(window.Room(), 1u) << "none at all would never end";
}

TEST(StreamWindow, IgnoresCreditsThatAreOldOrForFramesNeverSent) {
  SendWindow window(10, 1000 * kMs);
  TakeAll(&window);
  window.Credit(8, 10);
  window.Credit(3, 10);
  EXPECT_EQ(window.Room(), 8u);
  window.Credit(11, 10);
  EXPECT_EQ(window.Room(), 8u);
}

TEST(StreamWindow, NumbersWrap) {
  ReceiveWindow receiver(16);
  receiver.Probed(kSession, UINT32_MAX - 1, true);
  receiver.Arrived(kTag, UINT32_MAX);
  receiver.Arrived(kTag, 0);
  receiver.Arrived(kTag, 1);
  EXPECT_EQ(receiver.freed(), UINT32_MAX - 1);
  for (int i = 0; i < 3; ++i) receiver.Released();
  EXPECT_EQ(receiver.freed(), 1u);
}

TEST(StreamWindow, LaterFramesMakeUpForLostOnesAndAProbeForTheLast) {
  ReceiveWindow receiver(8);
  receiver.Probed(kSession, 0, true);
  receiver.Arrived(kTag, 1);
  receiver.Arrived(kTag, 5);
  EXPECT_EQ(receiver.freed(), 3u) << "2 to 4 are lost, two frames are kept";
  receiver.Released();
  receiver.Released();
  EXPECT_EQ(receiver.freed(), 5u);
  receiver.Probed(kSession, 8, true);
  EXPECT_EQ(receiver.freed(), 8u);
}

// Frames 1 to 4 fill the window, and the number of one of them is damaged. The credit then covers a
// frame that was never sent, whether its number is far ahead or within the next window.
TEST(StreamWindow, AProbeSetsANumberRightThatWasDamagedOnItsWay) {
  for (const uint32_t damaged : {5u, 8u, 3u + (1u << 24), 3u + (1u << 31)}) {
    SendWindow sender(4, 1000 * kMs);
    ReceiveWindow receiver(4);
    receiver.Probed(kSession, 0, true);
    TakeAll(&sender);
    for (const uint32_t number : {1u, 2u, damaged, 4u}) {
      receiver.Arrived(kTag, number);
      receiver.Released();
    }
    sender.Credit(receiver.freed(), receiver.window());
    receiver.Announced();
    receiver.Probed(kSession, sender.sent(), true);
    sender.Credit(receiver.freed(), receiver.window());
    receiver.Announced();
    EXPECT_EQ(sender.Room(), 4u) << damaged;
    receiver.Arrived(kTag, sender.Take());
    receiver.Released();
    EXPECT_TRUE(receiver.CreditDue()) << damaged;
  }
}

TEST(StreamWindow, AnOldProbeTakesNoRoomBack) {
  SendWindow sender(4, 1000 * kMs);
  ReceiveWindow receiver(4);
  TakeAll(&sender);
  receiver.Probed(kSession, 4, true);
  sender.Credit(receiver.freed(), receiver.window());
  receiver.Probed(kSession, 2, true);
  sender.Credit(receiver.freed(), receiver.window());
  EXPECT_EQ(sender.Room(), 4u);
  receiver.Arrived(kTag, sender.Take());
  receiver.Released();
  EXPECT_EQ(receiver.freed(), 5u);
}

TEST(StreamWindow, CreditIsDueAfterTheFirstProbeAndThenAfterAQuarterOfTheWindow) {
  ReceiveWindow receiver(16);
  EXPECT_FALSE(receiver.CreditDue());
  receiver.Probed(kSession, 0, true);
  EXPECT_TRUE(receiver.CreditDue());
  receiver.Announced();
  uint32_t number = 0;
  const auto pass = [&] {
    receiver.Arrived(kTag, ++number);
    receiver.Released();
  };
  for (int i = 0; i < 3; ++i) pass();
  EXPECT_FALSE(receiver.CreditDue());
  pass();
  EXPECT_TRUE(receiver.CreditDue());
}

TEST(StreamWindow, ASenderThatBeginsAnewIsCountedAnew) {
  ReceiveWindow receiver(16);
  receiver.Probed(kSession, 900, true);
  receiver.Announced();
  receiver.Probed(kSession + 1, 0, true);
  receiver.Arrived(kTag + 1, 1);
  EXPECT_EQ(receiver.session(), kSession + 1);
  EXPECT_EQ(receiver.freed(), 0u);
  receiver.Released();
  EXPECT_EQ(receiver.freed(), 1u);
  EXPECT_TRUE(receiver.CreditDue());
}

TEST(StreamWindow, AnUnvalidatedProbeIsAcceptedOnlyAsTheFirst) {
  ReceiveWindow receiver(16);
  EXPECT_TRUE(receiver.Probed(kSession + 1, 5, false));
  EXPECT_EQ(receiver.session(), kSession + 1);
  EXPECT_FALSE(receiver.Probed(kSession + 2, 6, false));
  EXPECT_TRUE(receiver.Probed(kSession + 1, 6, false));
  EXPECT_EQ(receiver.freed(), 6u);
  EXPECT_TRUE(receiver.Probed(kSession, 7, true));
  for (const uint64_t session : {kSession, kSession + 1}) {
    EXPECT_FALSE(receiver.Probed(session, 100, false));
    EXPECT_EQ(receiver.session(), kSession);
    EXPECT_EQ(receiver.freed(), 7u);
  }
  EXPECT_TRUE(receiver.Probed(kSession + 1, 0, true));
  EXPECT_EQ(receiver.session(), kSession + 1);
}

TEST(StreamWindow, FramesOfASessionThatNoProbeHasNamedDoNotCount) {
  ReceiveWindow receiver(16);
  receiver.Arrived(kTag, 1);
  receiver.Released();
  EXPECT_FALSE(receiver.CreditDue());
  receiver.Probed(kSession, 5, true);
  receiver.Announced();
  receiver.Arrived(kTag + 1, 6);
  EXPECT_EQ(receiver.freed(), 4u) << "it is kept all the same";
  receiver.Released();
  EXPECT_EQ(receiver.freed(), 5u);
  EXPECT_EQ(receiver.session(), kSession);
}

TEST(StreamWindow, FramesFurtherAheadThanASenderMayGoDoNotCount) {
  ReceiveWindow receiver(100);
  receiver.Probed(kSession, 1000, true);
  for (const uint32_t number : {1201u, 1000u, 0u, 1000u + (1u << 31)}) {
    receiver.Arrived(kTag, number);
    receiver.Released();
    EXPECT_EQ(receiver.freed(), 1000u) << number;
  }
  receiver.Arrived(kTag, 1200);
  receiver.Released();
  EXPECT_EQ(receiver.freed(), 1200u);
}

TEST(StreamWindow, AsksWhileRefusedAtGrowingIntervals) {
  SendWindow window(4, 1000 * kMs);
  TakeAll(&window);
  EXPECT_FALSE(window.ProbeDue(0)) << "nothing was refused";
  window.Refuse();
  EXPECT_FALSE(window.ProbeDue(0));
  EXPECT_EQ(window.NextProbeNs(), 2 * kMs);
  EXPECT_TRUE(window.ProbeDue(2 * kMs));
  EXPECT_EQ(window.NextProbeNs(), 6 * kMs);
  EXPECT_FALSE(window.ProbeDue(6 * kMs - 1));
  for (const int64_t ms : {6, 14, 30, 62, 126, 226, 326}) {
    EXPECT_EQ(window.NextProbeNs(), ms * kMs);
    EXPECT_TRUE(window.ProbeDue(ms * kMs));
  }
  window.Credit(1, 4);
  EXPECT_FALSE(window.ProbeDue(500 * kMs));
  EXPECT_EQ(window.NextProbeNs(), INT64_MAX);
}

TEST(StreamWindow, APeerIsUnresponsiveUntilItAnswers) {
  SendWindow window(4, 100 * kMs);
  TakeAll(&window);
  window.Refuse();
  window.ProbeDue(0);
  window.ProbeDue(90 * kMs);
  window.Answered();
  window.ProbeDue(120 * kMs);
  EXPECT_FALSE(window.unresponsive()) << "it has answered";
  window.ProbeDue(220 * kMs);
  EXPECT_TRUE(window.unresponsive());
  EXPECT_EQ(window.Room(), 0u);
  EXPECT_LT(window.NextProbeNs(), INT64_MAX) << "asked on";
  window.Answered();
  EXPECT_FALSE(window.unresponsive());
}

// A node that receives nothing may still send.
TEST(StreamWindow, FramesOfThePeerAreNoAnswer) {
  SendWindow window(4, 100 * kMs);
  TakeAll(&window);
  window.Refuse();
  for (int64_t ms = 0; ms <= 100; ++ms) {
    window.ProbeDue(ms * kMs);
    window.Heard();
  }
  EXPECT_TRUE(window.unresponsive());
  window.Heard();
  EXPECT_TRUE(window.unresponsive());
  window.Credit(4, 4);
  window.Answered();
  EXPECT_FALSE(window.unresponsive());
  EXPECT_EQ(window.Room(), 4u);
}

// Some probes and answers may get lost.
TEST(StreamWindow, AsksEightTimesBeforeAPeerCountsAsUnresponsive) {
  SendWindow window(4, 100 * kMs);
  TakeAll(&window);
  window.Refuse();
  int probes = 0;
  for (int64_t ms = 0; !window.unresponsive(); ++ms) probes += window.ProbeDue(ms * kMs);
  EXPECT_GE(probes, 8);
}

TEST(StreamWindow, AnUnresponsivePeerThatSendsIsAskedMoreOften) {
  for (const bool sends : {false, true}) {
    SendWindow window(4, 100 * kMs);
    TakeAll(&window);
    window.Refuse();
    int probes = 0;
    for (int64_t ms = 0; ms <= 2100; ++ms) {
      if (sends) window.Heard();
      const bool due = window.ProbeDue(ms * kMs);
      if (ms > 1100) probes += due;
    }
    EXPECT_EQ(probes, sends ? 100 : 10);
  }
}

TEST(StreamWindow, AnUnreachablePeerHasNoRoomAndIsUnresponsiveWhateverItSends) {
  SendWindow window(4, 100 * kMs);
  window.SetReached(false);
  EXPECT_EQ(window.Room(), 0u);
  window.Refuse();
  for (int64_t ms = 0; ms <= 150; ms += 10) {
    window.ProbeDue(ms * kMs);
    window.Answered();
  }
  EXPECT_TRUE(window.unresponsive());
  window.SetReached(true);
  EXPECT_EQ(window.Room(), 0u) << "it has not answered";
  window.Answered();
  EXPECT_EQ(window.Room(), 4u);
}

TEST(StreamWindow, ACallerThatNeverWaitsAsksAnUnresponsivePeerNowAndThen) {
  SendWindow window(4, 100 * kMs);
  int probes = 0;
  for (int i = 0; i < 1024; ++i) probes += window.Dropped();
  EXPECT_EQ(probes, 4);
}

}  // namespace
}  // namespace millrace
