// Tests of the simulated fabric: bytes, times, windows.
#include "test/sim/fabric/fabric.h"

#include <gtest/gtest.h>

#include <numeric>

#include "exchange/protocol/frame.h"
#include "test/sim/fabric/port.h"
#include "test/sim/fabric/wire.h"
#include "test/sim/shape.h"
#include "test/support/support.h"

namespace millrace::sim {
namespace {

// ---- Wire -------------------------------------------------------------------

TEST(Wire, AddsWhatTheTransportAndTheNetworkPutAroundAFrame) {
  // Transport prefix; preamble, Ethernet header, checksum, gap; IP and UDP; BTH, DETH, ICRC.
  EXPECT_EQ(RoceWire().BytesOf(4080), 4080 + 16 + (8 + 14 + 4 + 12) + (20 + 8) + (12 + 8 + 4));
  // LRH, GRH, BTH, DETH, ICRC, VCRC.
  EXPECT_EQ(InfinibandWire().BytesOf(4080), 4080 + 16 + 8 + 40 + 12 + 8 + 4 + 2);
  // Frame and prefix are 108 bytes; datagrams are padded to a multiple of 8.
  EXPECT_EQ(UdpWire().BytesOf(100), 112 + (8 + 14 + 4 + 12) + (20 + 8));
}

TEST(Wire, CountsTheLeastEthernetFrameForShorterOnes) {
  EXPECT_EQ(UdpWire().BytesOf(0), 84);
  // A credit is longer than the minimum Ethernet frame.
  EXPECT_EQ(UdpWire().CreditBytes(), 32 + (8 + 14 + 4 + 12) + (20 + 8));
}

TEST(Wire, HoldsTheLongestFramesThatDocumentsName) {
  EXPECT_EQ(RoceWire().max_frame_bytes, 4080);
  EXPECT_EQ(UdpWire().max_frame_bytes, 8960);
}

TEST(Wire, CountsALongerFrameAsSeveralDatagrams) {
  const Wire wire = RoceWire();
  EXPECT_EQ(wire.BytesOf(4081), wire.BytesOf(4080) + wire.BytesOf(1));
  EXPECT_EQ(wire.BytesOf(3 * 4080), 3 * wire.BytesOf(4080));
}

TEST(Wire, RefusesAnotherName) {
  EXPECT_EQ(test::ErrorOf([] { WireNamed("token ring"); }),
            "wire \"token ring\": expected roce, infiniband or udp");
}

// ---- Ports and the switch ---------------------------------------------------

// At this rate one byte takes one nanosecond.
constexpr PortRates kGigabyte{1e9, 1e9};

// Arrival time of each packet at a port, indexed by cargo.
std::vector<int64_t> ArrivalsAt(Fabric* fabric, uint16_t port, int64_t until) {
  std::vector<int64_t> times;
  for (int64_t now = 0; now <= until; ++now) {
    fabric->Advance(now);
    for (uint32_t cargo; fabric->Take(port, now, &cargo);) {
      times.resize(std::max<size_t>(times.size(), cargo + 1), -1);
      times[cargo] = now;
    }
  }
  return times;
}

TEST(Fabric, SendsAtTheRateOfThePort) {
  Fabric fabric(2, kGigabyte, 50);
  for (uint32_t i = 0; i < 4; ++i) fabric.Send(0, 1, 100, i, 0);
  EXPECT_EQ(fabric.BacklogNs(0, 0), 400);
  EXPECT_EQ(fabric.BacklogNs(0, 150), 250);
  // Arrival is sending time, plus latency, plus delivery time.
  EXPECT_EQ(ArrivalsAt(&fabric, 1, 1000), (std::vector<int64_t>{250, 350, 450, 550}));
  EXPECT_EQ(fabric.counts(0).bytes_out, 400);
  EXPECT_EQ(fabric.counts(1).bytes_in, 400);
  EXPECT_TRUE(fabric.idle());
}

TEST(Fabric, DeliversAtTheRateOfTheReceiver) {
  Fabric fabric(3, {1e9, 0.5e9}, 0);
  fabric.Send(0, 2, 100, 0, 0);
  fabric.Send(1, 2, 100, 1, 0);
  EXPECT_EQ(ArrivalsAt(&fabric, 2, 1000), (std::vector<int64_t>{300, 500}));
  // The second packet waits while the first is delivered.
  EXPECT_EQ(fabric.counts(2).deepest_queue_bytes, 200);
}

TEST(Fabric, CopiesAMulticastAtTheSwitch) {
  Fabric fabric(5, kGigabyte, 50);
  const int group = fabric.AddGroup({0, 1, 2, 3});
  fabric.Multicast(1, group, 100, 0, 0);
  fabric.Multicast(1, group, 100, 1, 0);
  EXPECT_EQ(fabric.counts(1).bytes_out, 200);
  for (const uint16_t port : {0, 2, 3}) {
    Fabric again(5, kGigabyte, 50);
    const int same = again.AddGroup({0, 1, 2, 3});
    again.Multicast(1, same, 100, 0, 0);
    again.Multicast(1, same, 100, 1, 0);
    EXPECT_EQ(ArrivalsAt(&again, port, 1000), (std::vector<int64_t>{250, 350})) << port;
    EXPECT_EQ(again.counts(port).bytes_in, 200);
    EXPECT_EQ(again.counts(1).bytes_in, 0);
    EXPECT_EQ(again.counts(4).bytes_in, 0);
  }
}

TEST(Fabric, MixesWhatComesFromSeveralInTheOrderOfArrival) {
  Fabric fabric(3, kGigabyte, 10);
  fabric.Send(0, 2, 300, 0, 0);
  fabric.Send(1, 2, 100, 1, 0);
  EXPECT_EQ(ArrivalsAt(&fabric, 2, 1000), (std::vector<int64_t>{610, 210}));
}

// ---- Shapes -----------------------------------------------------------------

TEST(Shape, JoinsAllNodesAsATree) {
  for (const auto& [nodes, fan_out] :
       {std::pair{2, 2}, {5, 2}, {33, 32}, {64, 32}, {1024, 32}, {1024, 8}, {100, 7}, {9, 100}}) {
    const Shape shape = TreeShape(static_cast<uint16_t>(nodes), static_cast<uint16_t>(fan_out));
    std::vector<bool> joined(nodes);
    joined[0] = true;
    size_t links = 0;
    for (const auto& segment : shape.segments) {
      EXPECT_TRUE(joined[segment[0]]) << nodes << ", " << fan_out;
      EXPECT_GE(segment.size(), 2u);
      EXPECT_LE(segment.size(), static_cast<size_t>(fan_out));
      links += segment.size() - 1;
      for (const uint16_t node : segment) joined[node] = true;
    }
    EXPECT_EQ(links, static_cast<size_t>(nodes - 1));
    EXPECT_EQ(std::accumulate(joined.begin(), joined.end(), 0), nodes);
  }
  EXPECT_EQ(TreeShape(1024, 32).segments.size(), 33u);
  EXPECT_EQ(FlatShape(1024).segments.size(), 1u);
}

// ---- Windows ----------------------------------------------------------------

// A frame of the given type, as the exchange posts it.
class Posted {
 public:
  Posted(FrameType type, uint16_t source, uint16_t destination, size_t payload_bytes)
      : head_(kFrameHeaderBytes), payload_(payload_bytes) {
    FrameHeader header;
    header.type = type;
    header.source = source;
    header.destination = destination;
    header.length = static_cast<uint32_t>(payload_bytes);
    EncodeFrame(header, {}, payload_, head_);
    frame_ = {destination, head_, payload_, {}, 0};
  }
  const PostedFrame& operator*() const { return frame_; }

 private:
  std::vector<std::byte> head_, payload_;
  PostedFrame frame_;
};

FabricPortOptions WithWire(bool multicast) {
  FabricPortOptions options;
  options.wire = RoceWire();
  options.multicast = multicast;
  options.chunk_floats = 1000;
  return options;
}

TEST(FabricPort, CountsAChunkAsLongAsOneOnTheWire) {
  for (const auto& [type, bytes] : {std::pair{FrameType::kPosition, 64 + 4000},
                                    {FrameType::kDiff, 64 + 4000},
                                    {FrameType::kPositionAck, 64 + 16}}) {
    FabricPort port(FlatShape(2), WithWire(false));
    EXPECT_TRUE(port.Send(0, *Posted(type, 0, 1, 16), 0));
    EXPECT_EQ(port.fabric().counts(0).bytes_out, RoceWire().BytesOf(bytes));
  }
}

// Bytes that a position costs its sender: one frame, or one frame per peer.
TEST(FabricPort, SendsAMulticastPositionOnceAndCopiesToEachPeer) {
  for (const uint16_t nodes : {2, 3, 17, 64}) {
    FabricPort once(FlatShape(nodes), WithWire(true)), copies(FlatShape(nodes), WithWire(false));
    const Posted position(FrameType::kPosition, 0, kAllNodes, 16);
    EXPECT_TRUE(once.Send(0, *position, 0));
    EXPECT_TRUE(copies.Send(0, *position, 0));
    EXPECT_EQ(copies.fabric().counts(0).bytes_out, (nodes - 1) * once.fabric().counts(0).bytes_out);
    for (uint16_t node = 1; node < nodes; ++node) {
      for (FabricPort* port : {&once, &copies}) {
        FabricPort::Arrived arrived;
        port->fabric().Advance(1'000'000'000);
        EXPECT_TRUE(port->Take(node, 1'000'000'000, &arrived));
        EXPECT_FALSE(port->Take(node, 1'000'000'000, &arrived));
      }
      EXPECT_EQ(once.fabric().counts(node).bytes_in, once.fabric().counts(0).bytes_out);
      EXPECT_EQ(copies.fabric().counts(node).bytes_in, once.fabric().counts(0).bytes_out);
    }
  }
}

// Until the first credit, the windows allow SendWindow::kFirstWindow frames.
TEST(FabricPort, RefusesWhatAWindowHasNoRoomForUntilACreditComes) {
  for (const bool multicast : {false, true}) {
    FabricPort port(FlatShape(3), WithWire(multicast));
    const Posted position(FrameType::kPosition, 0, kAllNodes, 16);
    uint32_t accepted = 0;
    while (port.Send(0, *position, 0)) ++accepted;
    EXPECT_EQ(accepted, SendWindow::kFirstWindow);
    const auto drain = [&](uint16_t node, int64_t now) {
      FabricPort::Arrived arrived;
      port.fabric().Advance(now);
      while (port.Take(node, now, &arrived)) port.Release(arrived, now);
    };
    drain(1, 1'000'000);
    FabricPort::Arrived arrived;
    port.fabric().Advance(2'000'000);
    EXPECT_FALSE(port.Take(0, 2'000'000, &arrived)) << "a credit is no frame";
    // Node 2 has not taken its frames yet.
    EXPECT_FALSE(port.Send(0, *position, 2'000'000));
    drain(2, 3'000'000);
    port.fabric().Advance(4'000'000);
    EXPECT_FALSE(port.Take(0, 4'000'000, &arrived));
    EXPECT_TRUE(port.Send(0, *position, 4'000'000));
  }
}

TEST(FabricPort, RefusesMulticastOnAWireWithout) {
  FabricPortOptions options;
  options.wire = UdpWire();
  options.multicast = true;
  EXPECT_EQ(test::ErrorOf([&] { FabricPort(FlatShape(2), options); }),
            "fabric: udp does not multicast");
}

}  // namespace
}  // namespace millrace::sim
