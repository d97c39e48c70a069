// Properties specific to the loopback hub, and the registry that creates it.
#include "transport/loopback/transport.h"

#include "millrace/transport_registry.h"
#include "test/transport/create_error.h"

namespace millrace {
namespace {

using test::CreateError;
using test::ErrorOf;

constexpr std::byte kMessage[8] = {};

OutFrame To(NodeId node) { return {node, {}, kMessage}; }

TransportConfig Config(NodeId node, std::map<std::string, std::string> options) {
  return {"loopback", node, std::move(options)};
}

TEST(Loopback, QueueHoldsExactlyAsManyFramesAsItWasGiven) {
  LoopbackHub hub({.nodes = 2, .queue_frames = 5});
  auto a = hub.Connect(0), b = hub.Connect(1);
  const std::vector<OutFrame> batch(8, To(1));
  for (int round = 0; round < 10; ++round) {
    const SendResult result = a->Send(batch);
    EXPECT_EQ(result.accepted, 5u);
    EXPECT_EQ(result.status, SendStatus::kBusy);
    InFrame frames[8];
    EXPECT_EQ(b->Receive(frames), 5u);
    EXPECT_EQ(a->Send(batch).accepted, 0u) << "the frames were not released yet";
    b->Release();
  }
}

TEST(Loopback, AMulticastIsForAllReceiversOrForNone) {
  LoopbackHub hub({.nodes = 3, .queue_frames = 1});
  auto a = hub.Connect(0), b = hub.Connect(1), c = hub.Connect(2);
  const OutFrame to_c = To(2), to_all = To(kAllNodes), to_b = To(1);
  ASSERT_EQ(a->Send({&to_c, 1}).accepted, 1u);
  EXPECT_EQ(a->Send({&to_all, 1}).accepted, 0u);
  InFrame frame;
  EXPECT_EQ(b->Receive({&frame, 1}), 0u);
  EXPECT_EQ(a->Send({&to_b, 1}).accepted, 1u) << "room that the multicast took was not given back";
}

TEST(Loopback, FramesToANodeThatIsNotThereAreDroppedAndCounted) {
  LoopbackHub hub({.nodes = 3, .queue_frames = 2});
  auto a = hub.Connect(0), b = hub.Connect(1);
  const std::vector<OutFrame> batch = {To(2), To(2), To(2), To(kAllNodes)};
  EXPECT_EQ(a->Send(batch).accepted, 4u);
  EXPECT_EQ(a->counters().dropped(DropReason::kUnreachable), 4u);
  InFrame frames[4];
  EXPECT_EQ(b->Receive(frames), 1u);
}

TEST(Loopback, ANodeThatComesBackFindsAnEmptyQueue) {
  LoopbackHub hub({.nodes = 2, .queue_frames = 4});
  auto a = hub.Connect(0), b = hub.Connect(1);
  const OutFrame frame = To(1);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(a->Send({&frame, 1}).accepted, 1u);
  EXPECT_EQ(a->Send({&frame, 1}).status, SendStatus::kBusy);
  b.reset();
  EXPECT_TRUE(a->Wait(INT64_MAX, WaitFor::kReceiveOrSend).sendable);
  b = hub.Connect(1);
  InFrame frames[4];
  EXPECT_EQ(b->Receive(frames), 0u);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(a->Send({&frame, 1}).accepted, 1u);
  EXPECT_EQ(b->Receive(frames), 4u);
}

TEST(Loopback, EndpointsOutliveTheirHub) {
  auto hub = std::make_unique<LoopbackHub>(LoopbackOptions{});
  auto a = hub->Connect(0), b = hub->Connect(1);
  hub.reset();
  const OutFrame frame = To(1);
  EXPECT_EQ(a->Send({&frame, 1}).accepted, 1u);
  InFrame frames[1];
  EXPECT_EQ(b->Receive(frames), 1u);
}

TEST(Loopback, ANodeConnectsOnceAndMustExist) {
  LoopbackHub hub({.nodes = 2});
  auto a = hub.Connect(0);
  EXPECT_EQ(ErrorOf([&] { hub.Connect(0); }), "transport loopback: node 0 is connected already");
  EXPECT_EQ(ErrorOf([&] { hub.Connect(2); }),
            "transport loopback: node 2: expected one from 0 to 1");
}

TEST(Loopback, RefusesOptionsOutOfRange) {
  EXPECT_CONTAINS(ErrorOf([] { LoopbackHub({.nodes = 1}); }),
                  "nodes=1: expected an integer from 2");
  EXPECT_CONTAINS(ErrorOf([] { LoopbackHub({.queue_frames = 0}); }), "queue_frames=0");
  EXPECT_CONTAINS(ErrorOf([] { LoopbackHub({.max_frame_bytes = 63}); }), "max_frame_bytes=63");
}

TEST(TransportRegistry, MakesEndpointsOfANamedHub) {
  auto& registry = TransportRegistry::Get();
  auto a = registry.Create(Config(0, {{"hub", "h"}, {"nodes", "3"}}));
  auto b = registry.Create(Config(2, {{"hub", "h"}, {"nodes", "3"}}));
  const OutFrame frame = To(2);
  EXPECT_EQ(a->Send({&frame, 1}).accepted, 1u);
  InFrame frames[1];
  EXPECT_EQ(b->Receive(frames), 1u);
  EXPECT_CONTAINS(CreateError(Config(1, {{"hub", "h"}, {"nodes", "4"}})),
                  "hub h exists with other");
}

TEST(TransportRegistry, BadConfigurationIsOneLineNamingTheOption) {
  // The rest of the list depends on the build.
  EXPECT_CONTAINS(
      CreateError({"carrier_pigeon", 0, {}}),
      "unknown transport carrier_pigeon: expected one of faulty, loopback, packet, udp");
  EXPECT_EQ(CreateError(Config(0, {{"queue_frames", "many"}})),
            "transport loopback: queue_frames=many: expected an integer from 1 to 1048576");
  EXPECT_CONTAINS(CreateError(Config(0, {{"nodes", "2x"}})), "nodes=2x: expected");
  EXPECT_EQ(CreateError(Config(0, {{"node", "2"}})),
            "transport loopback: unknown option node: expected one of hub, nodes, queue_frames, "
            "max_frame_bytes");
  EXPECT_CONTAINS(CreateError(Config(9, {})), "node 9: expected one from 0 to 1");
}

}  // namespace
}  // namespace millrace
