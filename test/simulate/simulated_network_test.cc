#include "simulate/simulated_network.h"

#include "exchange/protocol/frame.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using Arrivals = std::vector<SimulatedNetwork::Arrival>;

constexpr size_t kBytes = 1000, kOverhead = 66;
const std::vector<std::byte> kFrame(kBytes, std::byte{7});

TEST(SimulatedNetwork, TakesTheTimeOfItsRateAndDelay) {
  // 8 ns a byte on each link; the switch passes a frame on while it receives it.
  SimulatedNetwork network({.max_mbps = 1000, .delay_ms = 0.5}, 3, 1);
  Arrivals arrivals;
  constexpr int64_t kOnLink = 8 * (kBytes + kOverhead);
  network.Send(0, 1, kFrame, {}, 100, &arrivals);
  network.Send(0, 2, std::span(kFrame).first(400), std::span(kFrame).first(600), 100, &arrivals);
  ASSERT_EQ(arrivals.size(), 2u);
  EXPECT_EQ(arrivals[0].to, 1);
  EXPECT_EQ(arrivals[0].frame, kFrame);
  EXPECT_EQ(arrivals[0].at_ns, 100 + kOnLink + 500'000);
  EXPECT_EQ(arrivals[1].frame, kFrame);
  EXPECT_EQ(arrivals[1].at_ns, 100 + 2 * kOnLink + 500'000);
  EXPECT_EQ(network.FreeAt(0), 100 + 2 * kOnLink);
  EXPECT_EQ(network.FreeAt(1), 0);
  EXPECT_EQ(network.bytes_sent(), 2 * (kBytes + kOverhead));
}

TEST(SimulatedNetwork, MakesFramesForOneReceiverWaitForEachOther) {
  SimulatedNetwork network({.max_mbps = 1000, .delay_ms = 0}, 5, 1);
  Arrivals arrivals;
  for (uint16_t from = 1; from < 5; ++from) network.Send(from, 0, kFrame, {}, 0, &arrivals);
  constexpr int64_t kOnLink = 8 * (kBytes + kOverhead);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(arrivals[i].at_ns, (i + 1) * kOnLink);
}

// Two senders fill the buffers of the switch for 0.85 s beyond what their own links take. Of the
// frames of a third, those are lost that would wait for more than a second.
TEST(SimulatedNetwork, LosesFramesThatTheSwitchHasNoRoomFor) {
  SimulatedNetwork network({.max_mbps = 1, .delay_ms = 0}, 4, 1);
  Arrivals arrivals;
  constexpr int64_t kOnLink = 8000 * (kBytes + kOverhead);
  for (uint16_t from = 1; from < 4; ++from) {
    for (int i = 0; i < 100; ++i) network.Send(from, 0, kFrame, {}, 0, &arrivals);
  }
  const int64_t waits = 200 * kOnLink - SimulatedNetwork::kMaxWaitNs;  // the least time of sending
  const auto lost = static_cast<uint64_t>((waits - 1) / kOnLink);
  EXPECT_EQ(network.frames_lost(), lost);
  EXPECT_EQ(arrivals.size(), 300 - lost);
  EXPECT_EQ(arrivals.back().at_ns, static_cast<int64_t>(300 - lost) * kOnLink);
}

TEST(SimulatedNetwork, SendsACopyToEachOther) {
  SimulatedNetwork network({}, 4, 1);
  Arrivals arrivals;
  network.Send(2, kAllNodes, kFrame, {}, 0, &arrivals);
  ASSERT_EQ(arrivals.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(arrivals[i].to, i < 2 ? i : 3);
  EXPECT_EQ(network.bytes_sent(), 3 * (kBytes + kOverhead));
}

TEST(SimulatedNetwork, LosesItsShareOfFrames) {
  constexpr int kFrames = 4000;
  SimulatedNetwork network({.loss = 0.25}, 2, Seed());
  Arrivals arrivals;
  for (int i = 0; i < kFrames; ++i) network.Send(0, 1, kFrame, {}, 0, &arrivals);
  EXPECT_EQ(arrivals.size() + network.frames_lost(), size_t{kFrames});
  EXPECT_NEAR(static_cast<double>(network.frames_lost()) / kFrames, 0.25, 0.04);
}

}  // namespace
}  // namespace millrace::test
