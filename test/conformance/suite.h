// Requirements on every transport. Include it in one .cc of a test directory and instantiate it
// there:
//
//   INSTANTIATE_TEST_SUITE_P(Udp, TransportTest, testing::Values(UdpCase()), CaseName);
//
// A transport that is not lossless may lose frames only where its queues overflow: while few frames
// are in flight, all must arrive.
#ifndef MILLRACE_TEST_CONFORMANCE_SUITE_H_
#define MILLRACE_TEST_CONFORMANCE_SUITE_H_

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "base/clock.h"
#include "test/conformance/traffic.h"
#include "test/support/fake_clock.h"

namespace millrace::test {

class TransportTest : public testing::TestWithParam<TransportCase> {
 protected:
  void SetUp() override {
    const std::string reason = GetParam().why_not();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
  Group Make(int nodes, bool small_queues = false, const Clock* clock = &DefaultClock()) {
    return GetParam().make({nodes, small_queues, clock});
  }
  // Sends numbered frames until the transport is busy or has accepted `most`. Returns the number
  // accepted.
  static uint64_t Fill(Transport* sender, NodeId to, uint64_t most) {
    for (uint64_t number = 0; number < most; ++number) {
      const Bytes message = Numbered(number, 64);
      const OutFrame frame = {to, {}, message};
      const SendResult result = sender->Send({&frame, 1});
      if (result.accepted == 0) {
        EXPECT_EQ(result.status, SendStatus::kBusy);
        return number;
      }
      Guard guard;
      while (sender->Reclaim() < sender->counters().frames_sent() && guard.Waiting("reclaim")) {
      }
    }
    return most;
  }
};

inline std::string CaseName(const testing::TestParamInfo<TransportCase>& info) {
  return info.param.name;
}

TEST_P(TransportTest, DeliversHeaderAndPayloadOfEverySize) {
  Group group = Make(2);
  Rng rng(Seed(), {1});
  const size_t max = group[0]->max_frame_bytes();
  std::vector<size_t> sizes;
  for (size_t size = 0; size <= std::min<size_t>(max, 140); ++size) sizes.push_back(size);
  for (size_t size = 256; size < max; size *= 2)
    sizes.insert(sizes.end(), {size - 1, size, size + 1});
  for (int i = 0; i < 50; ++i) sizes.push_back(rng.Below(max + 1));
  sizes.insert(sizes.end(), {max - 1, max});
  for (size_t size : sizes) {
    for (size_t header : {size_t{0}, std::min<size_t>(size, 40), rng.Below(size + 1), size}) {
      const Bytes message = RandomBytes(size, &rng);
      ASSERT_TRUE(SendBytes(group[0].get(), 1, message, header));
      const std::vector<Received> received = Collect(group[1].get(), 1);
      ASSERT_EQ(received.size(), 1u);
      EXPECT_EQ(received[0].from, 0);
      ASSERT_EQ(received[0].bytes, message) << size << " bytes, header of " << header;
    }
  }
}

TEST_P(TransportTest, SendsBatchesToSeveralDestinations) {
  Group group = Make(4);
  std::vector<Bytes> messages;
  std::vector<OutFrame> frames;
  for (uint64_t i = 0; i < 12; ++i) messages.push_back(Numbered(i, 100 + i));
  for (uint64_t i = 0; i < 12; ++i) {
    frames.push_back({static_cast<NodeId>(1 + i % 3), {}, messages[i]});
  }
  ASSERT_EQ(group[0]->Send(frames).accepted, frames.size());
  ASSERT_TRUE(Flush(group[0].get()));
  for (NodeId node = 1; node < 4; ++node) {
    std::set<uint64_t> expected, received;
    for (uint64_t i = 0; i < 12; ++i) {
      if (frames[i].to == node) expected.insert(i);
    }
    for (const Received& frame : Collect(group[node].get(), expected.size())) {
      received.insert(NumberOf(frame.bytes));
      EXPECT_EQ(frame.bytes, messages.at(NumberOf(frame.bytes)));
    }
    EXPECT_EQ(received, expected);
  }
}

TEST_P(TransportTest, UnicastReachesOnlyItsDestination) {
  Group group = Make(4);
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(SendBytes(group[0].get(), 2, Numbered(i)));
  EXPECT_EQ(Collect(group[2].get(), 8).size(), 8u);
  // The frame sent last has arrived, so misdirected frames would have arrived as well.
  for (NodeId other : {1, 3}) {
    ASSERT_TRUE(SendBytes(group[0].get(), other, Numbered(100)));
    const std::vector<Received> received = Collect(group[other].get(), 1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(NumberOf(received[0].bytes), 100u);
  }
  EXPECT_TRUE(Drain(group[0].get()).empty());
}

TEST_P(TransportTest, MulticastReachesAllOthersAndNotTheSender) {
  Group group = Make(4);
  for (uint64_t i = 0; i < 8; ++i)
    ASSERT_TRUE(SendBytes(group[1].get(), kAllNodes, Numbered(i, 50)));
  for (NodeId node : {0, 2, 3}) {
    std::set<uint64_t> numbers;
    for (const Received& frame : Collect(group[node].get(), 8)) {
      EXPECT_EQ(frame.from, 1);
      EXPECT_EQ(frame.bytes, Numbered(NumberOf(frame.bytes), 50));
      EXPECT_TRUE(numbers.insert(NumberOf(frame.bytes)).second) << "delivered twice";
    }
    EXPECT_EQ(numbers.size(), 8u);
  }
  ASSERT_TRUE(SendBytes(group[0].get(), 1, Numbered(100)));
  const std::vector<Received> received = Collect(group[1].get(), 1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].from, 0);
}

TEST_P(TransportTest, RefusesAFrameThatIsTooLongAndTakesThoseAroundIt) {
  Group group = Make(2);
  const Bytes first = Numbered(1), last = Numbered(2);
  const Bytes long_one(group[0]->max_frame_bytes() + 1);
  const std::vector<OutFrame> frames = {
      {1, {}, first},
      {1, std::span(long_one).first(8), std::span(long_one).subspan(8)},
      {1, last, {}}};
  const SendResult result = group[0]->Send(frames);
  EXPECT_EQ(result.accepted, 1u);
  EXPECT_EQ(result.status, SendStatus::kTooLong);
  EXPECT_EQ(group[0]->counters().dropped(DropReason::kTooLong), 1u);
  EXPECT_EQ(group[0]->Send(std::span(frames).subspan(2)).accepted, 1u);
  ASSERT_TRUE(Flush(group[0].get()));
  EXPECT_EQ(Collect(group[1].get(), 2).size(), 2u);
  EXPECT_EQ(group[0]->counters().frames_sent(), 2u);
}

TEST_P(TransportTest, RefusesANodeThatIsNoPeer) {
  Group group = Make(2);
  const Bytes message = Numbered(1);
  for (NodeId node : {NodeId{0}, NodeId{2}, NodeId{0xfffe}}) {
    const OutFrame frame = {node, {}, message};
    const SendResult result = group[0]->Send({&frame, 1});
    EXPECT_EQ(result.accepted, 0u);
    EXPECT_EQ(result.status, SendStatus::kNoSuchNode);
  }
  EXPECT_EQ(group[0]->counters().dropped(DropReason::kNoSuchNode), 3u);
}

TEST_P(TransportTest, BackPressureLosesNothingAndRecovers) {
  Group group = Make(2, true);
  constexpr uint64_t kMax = 4096;
  const uint64_t accepted = Fill(group[0].get(), 1, kMax);
  ASSERT_GT(accepted, 0u);
  const bool was_busy = accepted < kMax;
  EXPECT_EQ(group[0]->counters().busy(), was_busy ? 1u : 0u);
  std::set<uint64_t> numbers;
  auto take = [&] {
    for (const Received& frame : Drain(group[1].get())) {
      EXPECT_EQ(frame.bytes, Numbered(NumberOf(frame.bytes), 64));
      EXPECT_LT(NumberOf(frame.bytes), accepted) << "was refused";
      EXPECT_TRUE(numbers.insert(NumberOf(frame.bytes)).second) << "delivered twice";
    }
  };
  take();
  // Some frames arrive later than they were sent, by however long the kernel takes.
  if (was_busy) {
    EXPECT_TRUE(WaitForRoom(group[0].get(), group[1].get(), take));
  }
  Guard guard;
  while (group[0]->info().lossless && numbers.size() < accepted && guard.Waiting("frames")) take();
  group[0]->Reclaim();
  take();
  ASSERT_TRUE(SendBytes(group[0].get(), 1, Numbered(kMax)));
  bool recovered = false;
  while (!recovered && guard.Waiting("the frame after the jam")) {
    for (const Received& frame : Drain(group[1].get())) {
      recovered |= NumberOf(frame.bytes) == kMax;
    }
    group[0]->Reclaim();
  }
}

TEST_P(TransportTest, AFullReceiverDoesNotHoldUpOthers) {
  Group group = Make(3, true);
  Fill(group[0].get(), 1, 4096);
  const Bytes message = Numbered(7);
  const std::vector<OutFrame> frames = {{1, {}, message}, {2, {}, message}};
  const SendResult result = group[0]->Send(frames);
  if (result.status == SendStatus::kBusy) {
    ASSERT_EQ(result.accepted, 0u);
    ASSERT_EQ(group[0]->Send(std::span(frames).subspan(1)).accepted, 1u);
  }
  group[0]->Reclaim();
  EXPECT_EQ(Collect(group[2].get(), 1).size(), 1u);
}

TEST_P(TransportTest, ReceivedFramesStayIntactUntilRelease) {
  Group group = Make(2);
  Rng rng(Seed(), {2});
  std::vector<Bytes> sent;
  for (int i = 0; i < 6; ++i) {
    sent.push_back(RandomBytes(200, &rng));
    ASSERT_TRUE(SendBytes(group[0].get(), 1, sent.back()));
  }
  std::vector<InFrame> frames(6);
  size_t count = 0;
  Guard guard;
  while (count < 6 && guard.Waiting("frames")) {
    count += group[1]->Receive(std::span(frames).subspan(count));
  }
  Fill(group[0].get(), 1, 2000);  // more than there are buffers
  std::vector<InFrame> more(16);
  const size_t taken = group[1]->Receive(more);
  for (const InFrame& frame : frames) {
    const Bytes bytes(frame.bytes.begin(), frame.bytes.end());
    EXPECT_EQ(std::count(sent.begin(), sent.end(), bytes), 1);
  }
  for (size_t i = 0; i < taken; ++i) {
    const Bytes bytes(more[i].bytes.begin(), more[i].bytes.end());
    EXPECT_EQ(bytes, Numbered(NumberOf(bytes), 64));
  }
  group[1]->Release();
}

// A device that has registered this memory reads frames there.
TEST_P(TransportTest, ReceivedFramesLieWhereItSaysThatTheyDo) {
  Group group = Make(2);
  const auto memory = group[1]->ReceiveMemory();
  if (memory.empty()) GTEST_SKIP() << "this transport does not say where";
  Rng rng(Seed(), {4});
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(SendBytes(group[0].get(), i % 3 == 0 ? kAllNodes : 1, Numbered(i, 64), 40));
    InFrame frame;
    Guard guard;
    while (group[1]->Receive({&frame, 1}) == 0 && guard.Waiting("a frame")) {
    }
    const bool lies = std::any_of(memory.begin(), memory.end(), [&](const auto& one) {
      return frame.bytes.data() >= one.data() &&
             frame.bytes.data() + frame.bytes.size() <= one.data() + one.size();
    });
    ASSERT_TRUE(lies);
    if (rng.Below(4) == 0) group[1]->Release();
  }
  const auto after = group[1]->ReceiveMemory();
  for (size_t i = 0; i < memory.size(); ++i) EXPECT_EQ(after[i].data(), memory[i].data());
}

TEST_P(TransportTest, MemoryThatWasReclaimedMayBeOverwritten) {
  Group group = Make(2);
  Bytes memory(512);
  uint64_t before = 0;
  for (uint64_t i = 0; i < 64; ++i) {
    memory = Numbered(i, 512);
    ASSERT_TRUE(SendBytes(group[0].get(), 1, memory, 32));
    EXPECT_GE(group[0]->Reclaim(), before);
    before = group[0]->Reclaim();
    EXPECT_EQ(before, i + 1);
    std::fill(memory.begin(), memory.end(), std::byte{0xee});
    const std::vector<Received> received = Collect(group[1].get(), 1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].bytes, Numbered(i, 512));
  }
}

TEST_P(TransportTest, WakeEndsAWaitAndOnlyOne) {
  Group group = Make(2);
  group[0]->Wake();
  group[0]->Wake();
  EXPECT_TRUE(group[0]->Wait(INT64_MAX, WaitFor::kReceive).woken);
  EXPECT_FALSE(group[0]->Wait(INT64_MIN, WaitFor::kReceive).woken);
  for (int i = 0; i < 200; ++i) {
    std::thread waker([&] { group[0]->Wake(); });
    EXPECT_TRUE(group[0]->Wait(INT64_MAX, WaitFor::kReceive).woken);
    waker.join();
  }
}

TEST_P(TransportTest, AFrameEndsAWait) {
  Group group = Make(2);
  for (uint64_t i = 0; i < 200; ++i) {
    std::thread sender([&] { SendBytes(group[0].get(), 1, Numbered(i)); });
    EXPECT_TRUE(group[1]->Wait(INT64_MAX, WaitFor::kReceive).receivable);
    sender.join();
    EXPECT_EQ(Collect(group[1].get(), 1).size(), 1u);
  }
}

TEST_P(TransportTest, ReleasedBuffersEndAWaitForRoom) {
  Group group = Make(2, true);
  constexpr uint64_t kMax = 4096;
  for (int round = 0; round < 20; ++round) {
    if (Fill(group[0].get(), 1, kMax) == kMax) {
      // The transport is never busy, so it has to drop frames for which its receiver has no room.
      EXPECT_FALSE(group[0]->info().lossless);
      return;
    }
    // Waits for room, not for a frame: a network may have lost all frames.
    std::atomic<bool> room{false};
    std::thread receiver([&] {
      for (Guard guard; !room && guard.Waiting("room at the sender");) {
        Drain(group[1].get());
        group[1]->Wait(Soon(DefaultClock()), WaitFor::kReceive);
      }
    });
    EXPECT_TRUE(group[0]->Wait(INT64_MAX, WaitFor::kReceiveOrSend).sendable);
    room = true;
    group[1]->Wake();
    receiver.join();
  }
}

TEST_P(TransportTest, WaitEndsAtItsDeadlineByTheInjectedClock) {
  FakeClock clock;
  Group group = Make(2, false, &clock);
  const WaitResult over = group[0]->Wait(clock.NowNs(), WaitFor::kReceive);
  EXPECT_FALSE(over.receivable || over.sendable || over.woken);
  std::atomic<bool> advanced{false};
  std::thread waiter([&] {
    const WaitResult result = group[0]->Wait(1000, WaitFor::kReceive);
    EXPECT_TRUE(advanced) << "ended before its deadline";
    EXPECT_FALSE(result.receivable || result.sendable || result.woken);
  });
  clock.AdvanceNs(999);
  std::this_thread::yield();
  advanced = true;
  clock.AdvanceNs(1);
  waiter.join();
}

TEST_P(TransportTest, CountersAddUp) {
  Group group = Make(3);
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(SendBytes(group[0].get(), 1, Numbered(i, 40 + i), 16));
    bytes += 40 + i;
  }
  for (uint64_t i = 0; i < 5; ++i)
    ASSERT_TRUE(SendBytes(group[0].get(), kAllNodes, Numbered(i, 99)));
  EXPECT_EQ(Collect(group[1].get(), 15).size(), 15u);
  EXPECT_EQ(Collect(group[2].get(), 5).size(), 5u);
  const TransportCounters& sender = group[0]->counters();
  EXPECT_EQ(sender.frames_sent(), 15u);
  EXPECT_EQ(sender.bytes_sent(), bytes + 5 * 99);
  EXPECT_EQ(sender.transmissions(), group[0]->info().multicast ? 15u : 20u);
  EXPECT_EQ(group[1]->counters().frames_received(), 15u);
  EXPECT_EQ(group[1]->counters().bytes_received(), bytes + 5 * 99);
  EXPECT_EQ(group[2]->counters().frames_received(), 5u);
  EXPECT_EQ(group[2]->counters().bytes_received(), 5u * 99);
  for (size_t reason = 0; reason < kDropReasons; ++reason) {
    for (const auto& end : group) EXPECT_EQ(end->counters().dropped(DropReason(reason)), 0u);
  }
}

TEST_P(TransportTest, GoesWithFramesInFlight) {
  for (int first : {0, 1}) {
    Group group = GetParam().make({.nodes = 3, .small_queues = true, .peers_leave = true});
    Fill(group[0].get(), 1, 100);
    Fill(group[1].get(), 0, 100);
    InFrame frames[2];
    group[1]->Receive(frames);  // without Release
    group[first].reset();
    // The other nodes continue.
    ASSERT_TRUE(SendBytes(group[1 - first].get(), 2, Numbered(5)));
    EXPECT_EQ(Collect(group[2].get(), 1).size(), 1u);
    SendBytes(group[1 - first].get(), first, Numbered(6));
  }
}

// One side of TwoThreadsHammerEachOther: sends numbered frames of many lengths and receives until
// both sides have received `wanted`.
struct Hammer {
  Hammer(Transport* transport, NodeId peer) : transport(transport), peer(peer) {}

  Transport* const transport;
  const NodeId peer;
  std::atomic<uint64_t> received{0}, sent{0};
  std::set<uint64_t> numbers;

  static size_t LengthOf(uint64_t number) { return 8 + number * 37 % 1400; }

  void Take() {
    InFrame frames[32];
    const size_t count = transport->Receive(frames);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t number = NumberOf(frames[i].bytes);
      const Bytes expected = Numbered(number, LengthOf(number));
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), frames[i].bytes.begin(),
                             frames[i].bytes.end()));
      EXPECT_TRUE(numbers.insert(number).second) << "delivered twice";
    }
    transport->Release();
    transport->Reclaim();
    received += count;
  }

  void Run(const Hammer& other, uint64_t wanted) {
    constexpr size_t kBatch = 16;
    std::vector<Bytes> messages(kBatch);
    Guard guard;
    while ((received < wanted || other.received < wanted) && guard.Waiting("the hammering")) {
      std::vector<OutFrame> frames;
      for (size_t i = 0; i < kBatch; ++i) {
        messages[i] = Numbered(sent + i, LengthOf(sent + i));
        frames.push_back(
            {peer, std::span(messages[i]).first(8), std::span(messages[i]).subspan(8)});
      }
      const SendResult result = transport->Send(frames);
      sent += result.accepted;
      Take();
      while (transport->Reclaim() < sent && guard.Waiting("reclaim")) Take();
      if (result.status == SendStatus::kBusy) {
        transport->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
      }
    }
  }
};

TEST_P(TransportTest, TwoThreadsHammerEachOther) {
  Group group = Make(2, true);
  Hammer a(group[0].get(), 1), b(group[1].get(), 0);
  constexpr uint64_t kWanted = 10'000;
  std::thread thread([&] { a.Run(b, kWanted); });
  b.Run(a, kWanted);
  thread.join();
  if (!group[0]->info().lossless) return;
  Guard guard;
  while ((a.received < b.sent || b.received < a.sent) && guard.Waiting("the rest")) {
    a.Take();
    b.Take();
  }
  EXPECT_EQ(a.received, b.sent);
  EXPECT_EQ(b.received, a.sent);
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CONFORMANCE_SUITE_H_
