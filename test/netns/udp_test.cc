// UDP between two emulated machines: MTUs, routes, full queues, and streams on a network that loses
// packets.
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "test/conformance/traffic.h"
#include "test/netns/udp_network.h"

namespace millrace::test {
namespace {

class UdpAcrossNetwork : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = Network::WhyNot();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(UdpAcrossNetwork, FramesFitTheMtuOfTheNarrowestPathAndLongerOnesAreRefused) {
  for (const auto& [mtu, bytes] : {std::pair(1500, 1464), std::pair(9000, 8960)}) {
    const Network network(mtu);
    UdpOptions options;
    EXPECT_EQ(AcrossNetwork(network, 2, options, {})[0]->max_frame_bytes(),
              static_cast<size_t>(bytes));
    options.max_frame_bytes = bytes + 1;
    EXPECT_CONTAINS(ErrorOf([&] { AcrossNetwork(network, 2, options, {}); }),
                    StrCat("has room for ", bytes, " (MTU ", mtu, "); expected that at most"));
    UdpSocketOptions fragments;
    fragments.fragment = true;
    options.max_frame_bytes = 30'000;
    Group group = AcrossNetwork(network, 2, options, fragments);
    const Bytes message = Numbered(1, 30'000);
    ASSERT_TRUE(SendBytes(group[0].get(), 1, message));
    EXPECT_EQ(Collect(group[1].get(), 1)[0].bytes, message);
  }
}

TEST_F(UdpAcrossNetwork, APeerThatNoRouteLeadsToIsOneLineNamingIt) {
  const Network network(1500);
  network.Inside(0, [] {
    UdpOptions options;
    options.peers = {{1, "192.0.2.1:7"}};
    const std::string error =
        ErrorOf([&] { ConnectUdp(UdpSocket({.address = "10.99.0.1:0"}), options); });
    EXPECT_CONTAINS(error, "transport udp: peers: 1=192.0.2.1:7: no route from 10.99.0.1:");
    EXPECT_CONTAINS(error, "Network is unreachable");
  });
}

// Sends `count` numbered frames from node 0 to node 1; returns the numbers that arrived.
std::set<uint64_t> Stream(Group* group, uint64_t count) {
  std::set<uint64_t> arrived;
  constexpr size_t kBatch = 32, kBytes = 1000;
  const auto take = [&] {
    for (const Received& frame : Drain((*group)[1].get())) {
      const uint64_t number = NumberOf(frame.bytes);
      EXPECT_EQ(frame.bytes, Numbered(number, kBytes));
      EXPECT_TRUE(arrived.insert(number).second) << "delivered twice";
    }
  };
  std::vector<Bytes> messages(kBatch);
  Guard guard;
  for (uint64_t sent = 0; sent < count && guard.Waiting("the stream");) {
    std::vector<OutFrame> frames;
    for (size_t i = 0; i < kBatch && sent + i < count; ++i) {
      messages[i] = Numbered(sent + i, kBytes);
      frames.push_back({1, {}, messages[i]});
    }
    const SendResult result = (*group)[0]->Send(frames);
    sent += result.accepted;
    take();
    // If the last frames of a window or their credit are lost, the probe in Wait recovers from it.
    if (result.status == SendStatus::kBusy) {
      (*group)[0]->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
    }
  }
  take();
  return arrived;
}

TEST_F(UdpAcrossNetwork, OnlyTheFramesThatTheNetworkLosesAreMissing) {
  const std::string reason = Network::WhyNoLoss();
  if (!reason.empty()) GTEST_SKIP() << reason;
  const Network network(1500);
  network.LosePackets(1, 0.01, 500);  // frames are long enough to be lost, credits are not
  UdpSocketOptions socket;
  socket.gso = socket.gro = false;  // so that a lost packet is one frame
  UdpOptions options;
  options.silence_ms = 3'600'000;
  Group group = AcrossNetwork(network, 2, options, socket);
  constexpr uint64_t kFrames = 20'000;
  const std::set<uint64_t> arrived = Stream(&group, kFrames);
  EXPECT_GT(network.PacketsLost(1), 0u);
  EXPECT_EQ(arrived.size() + network.PacketsLost(1), kFrames);
  for (const auto& end : group) {
    for (size_t i = 0; i < kDropReasons; ++i) EXPECT_EQ(end->counters().dropped(DropReason(i)), 0u);
  }
}

TEST_F(UdpAcrossNetwork, LossOfFramesAndCreditsAlikeStallsNobody) {
  const std::string reason = Network::WhyNoLoss();
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (const bool offloads : {false, true}) {
    const Network network(1500);
    for (int machine : {0, 1}) network.LosePackets(machine, 0.1, 0);
    UdpSocketOptions socket;
    socket.gso = socket.gro = offloads;
    UdpOptions options;
    options.window_frames = 16;
    options.silence_ms = 3'600'000;
    Group group = AcrossNetwork(network, 2, options, socket);
    constexpr uint64_t kFrames = 5'000;
    const std::set<uint64_t> arrived = Stream(&group, kFrames);
    EXPECT_GT(arrived.size(), kFrames / 2);
    EXPECT_LT(arrived.size(), kFrames);
    EXPECT_EQ(group[0]->counters().frames_sent(), kFrames);
    EXPECT_EQ(group[0]->counters().dropped(DropReason::kUnreachable), 0u);
  }
}

TEST_F(UdpAcrossNetwork, AKernelQueueThatIsFullIsBackPressureAndNoLoss) {
  const Network network(1500);
  network.Run(0, {"tc", "qdisc", "add", "dev", "mr0", "root", "tbf", "rate", "20mbit", "burst",
                  "16kb", "limit", "1000000"});
  UdpSocketOptions socket;
  socket.send_buffer_bytes = 4096;
  // Nodes 1 and 3 are behind the slow link, node 2 is not: a multicast meets the full queue while
  // it goes from one node to the next.
  UdpOptions options;
  options.silence_ms = 3'600'000;
  Group group = AcrossNetwork(network, 4, options, socket);
  constexpr uint64_t kFrames = 200;
  std::vector<std::set<uint64_t>> arrived(4);
  const auto take = [&] {
    for (size_t node = 1; node < 4; ++node) {
      for (const Received& frame : Drain(group[node].get())) {
        EXPECT_EQ(frame.bytes, Numbered(NumberOf(frame.bytes), 1000));
        EXPECT_TRUE(arrived[node].insert(NumberOf(frame.bytes)).second) << "delivered twice";
      }
    }
  };
  Guard guard;
  for (uint64_t number = 0; number < kFrames && guard.Waiting("room");) {
    const Bytes message = Numbered(number, 1000);
    const OutFrame frames[] = {{kAllNodes, {}, message}};
    const SendResult result = group[0]->Send(frames);
    number += result.accepted;
    if (result.accepted == 0) group[0]->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
    take();
  }
  const auto missing = [&] {
    return std::any_of(arrived.begin() + 1, arrived.end(),
                       [&](const auto& numbers) { return numbers.size() < kFrames; });
  };
  while (missing() && guard.Waiting("the rest")) {
    group[0]->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
    take();
  }
  EXPECT_GT(group[0]->counters().busy(), 0u);
  EXPECT_EQ(group[0]->counters().transmissions(), 3 * kFrames);
  EXPECT_EQ(group[0]->counters().dropped(DropReason::kFailed), 0u);
}

}  // namespace
}  // namespace millrace::test
