// The transport of docs/guides/transport.md, compiled into this program (transports_test.cc and
// faults_test.cc have it in the suites): nodes that are started again or stopped, and its errors.
#include "test/conformance/unix_transport.h"

#include <gtest/gtest.h>

#include "examples/extend/unix_transport.cc"

namespace millrace::test {
namespace {

std::unique_ptr<Transport> Node(const std::string& group, int node, int nodes) {
  return TransportRegistry::Get().Create(UnixConfig(group, node, nodes));
}

TEST(UnixTransport, ReachesANodeThatHasBeenStartedAgain) {
  const std::string group = UnixGroupName();
  std::unique_ptr<Transport> a = Node(group, 0, 2), b = Node(group, 1, 2);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(SendBytes(a.get(), 1, Numbered(i)));
    EXPECT_EQ(Collect(b.get(), 1).size(), 1u);
    ASSERT_TRUE(SendBytes(b.get(), 0, Numbered(i)));
    EXPECT_EQ(Collect(a.get(), 1).size(), 1u);
    b.reset();
    // Frames to nobody are dropped.
    const uint64_t before = a->counters().dropped(DropReason::kUnreachable);
    ASSERT_TRUE(SendBytes(a.get(), 1, Numbered(7)));
    ASSERT_TRUE(SendBytes(a.get(), kAllNodes, Numbered(7)));
    EXPECT_EQ(a->counters().dropped(DropReason::kUnreachable), before + 2);
    b = Node(group, 1, 2);
    EXPECT_TRUE(Drain(b.get()).empty());
  }
}

// The node that goes on sends nothing, but waits.
TEST(UnixTransport, IsReachedByANodeThatHasBeenStartedAgain) {
  const std::string group = UnixGroupName();
  std::unique_ptr<Transport> a = Node(group, 0, 2), b = Node(group, 1, 2);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(SendBytes(a.get(), 1, Numbered(i)));
    EXPECT_EQ(Collect(b.get(), 1).size(), 1u);
    b.reset();
    b = Node(group, 1, 2);
    a->Wait(Soon(DefaultClock()), WaitFor::kReceive);
    ASSERT_TRUE(SendBytes(b.get(), 0, Numbered(i)));
    const std::vector<Received> received = Collect(a.get(), 1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].from, 1);
  }
}

// A process that has been stopped reads nothing; the others get their frames to all.
TEST(UnixTransport, AFrameToAllPassesAPeerThatHasNoRoom) {
  const std::string group = UnixGroupName();
  std::unique_ptr<Transport> a = Node(group, 0, 3), b = Node(group, 1, 3), c = Node(group, 2, 3);
  const Bytes message = Numbered(1, 64);
  const OutFrame to_b = {1, {}, message};
  while (a->Send({&to_b, 1}).accepted == 1) {
  }
  for (uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(SendBytes(a.get(), kAllNodes, Numbered(i, 64)));
  EXPECT_EQ(Collect(c.get(), 5).size(), 5u);
  EXPECT_EQ(a->counters().dropped(DropReason::kOverrun), 5u);
  EXPECT_EQ(a->counters().dropped(DropReason::kUnreachable), 0u);
}

TEST(UnixTransport, TellsWhatIsWrongInOneLine) {
  const std::string group = UnixGroupName();
  const std::unique_ptr<Transport> a = Node(group, 0, 2);
  const auto error = [&](const std::map<std::string, std::string>& options) {
    TransportConfig config = UnixConfig(group, 1, 2);
    for (const auto& [key, value] : options) config.options[key] = value;
    return ErrorOf([&] { TransportRegistry::Get().Create(config); });
  };
  EXPECT_EQ(ErrorOf([&] { Node(group, 0, 2); }),
            "transport unix: socket=" + group +
                ".0: Address already in use; expected a name that no other process has");
  EXPECT_EQ(error({{"socket", ""}}), "transport unix: socket name '': expected 1 to 96 bytes");
  EXPECT_EQ(error({{"socket", std::string(97, 'x')}}),
            "transport unix: socket name '" + std::string(97, 'x') + "': expected 1 to 96 bytes");
  EXPECT_EQ(error({{"peers", "x"}}),
            "transport unix: peers: x: expected NODE=NAME, node from 0 to 65534");
  EXPECT_EQ(error({{"peers", "1=x"}}),
            "transport unix: peers: 1=x: expected the id of another node");
  EXPECT_EQ(error({{"max_frame_bytes", "10"}}),
            "transport unix: max_frame_bytes=10: expected an integer from 64 to 65536");
  EXPECT_EQ(
      error({{"send_buffer_bytes", "many"}}),
      "transport unix: send_buffer_bytes=many: expected an integer from 131072 to 1073741824");
  EXPECT_EQ(error({{"port", "7"}}),
            "transport unix: unknown option port: expected one of socket, peers, max_frame_bytes, "
            "send_buffer_bytes");
}

}  // namespace
}  // namespace millrace::test
