// `millrace bench` between emulated machines that lose packets.
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"
#include "proto/bench.pb.h"
#include "test/netns/network.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

TEST(BenchOfMachines, FindsThePacketsThatALinkLoses) {
  const std::string reason = Network::WhyNoLoss();
  if (!reason.empty()) GTEST_SKIP() << reason;
  constexpr int kMachines = 3;
  Network network(1500, kMachines);
  // Only packets to node c are lost.
  network.LosePackets(2, 0.05, 200);
  const TempDir folder;
  const std::string topology = folder / "topology.prototxt";
  std::string text = "name: \"test\"\n";
  for (int i = 0; i < kMachines; ++i) {
    text += StrCat("node { name: \"", static_cast<char>('a' + i), "\" address: \"",
                   Network::AddressOf(i), "\" }\n");
  }
  // The peer timeout is long, so no node is declared dead on a busy machine. Without segmentation
  // offload each frame is one packet.
  text +=
      "segment { name: \"lan\" transport: \"udp\" max_mbps: 80 peer_timeout_ms: 10000\n"
      "option { key: \"silence_ms\" value: \"60000\" } option { key: \"gso\" value: \"0\" } }\n";
  WriteFile(topology, text);
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < kMachines; ++i) {
    network.Inside(i, [&] {
      nodes.push_back(std::make_unique<Process>(std::vector<std::string>{
          Binary(), "bench", "--topology=" + topology,
          StrCat("--node=", static_cast<char>('a' + i)), StrCat("--seconds=", 2 * Patience()),
          "--floats=100000", "--json"}));
    });
  }
  std::vector<CommandResult> results;
  for (auto& node : nodes) results.push_back(node->Wait());
  for (const CommandResult& result : results) ASSERT_EQ(result.status, 0) << result.errors;
  BenchResult result;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(results[0].output, &result).ok());
  EXPECT_GT(network.PacketsLost(2), 0u);
  ASSERT_EQ(result.segment_size(), 1);
  ASSERT_EQ(result.segment(0).flow_size(), 6);
  for (const BenchFlow& flow : result.segment(0).flow()) {
    SCOPED_TRACE(flow.from() + " to " + flow.to() + " of " + results[0].output);
    EXPECT_GT(flow.all_frames_sent(), 0);
    if (flow.to() == "c") {
      // The loss applies to packets of 200 bytes or more: short frames, such as position
      // acknowledgements, all arrive.
      EXPECT_GT(flow.loss(), 0);
      // Five standard deviations: the faster the machine, the more frames, and the nearer they
      // come.
      EXPECT_LT(flow.loss(), 0.05 + 5 * std::sqrt(0.05 * 0.95 / flow.all_frames_sent()));
    } else {
      EXPECT_LT(flow.loss(), 0.01);
    }
    EXPECT_GT(flow.position_megabytes(), 0);
    EXPECT_GT(flow.difference_megabytes(), 0);
  }
  // The interfaces report their speed; max_mbps is lower.
  for (const BenchEndResult& end : result.segment(0).end()) {
    EXPECT_EQ(end.limited_by(), "max_mbps");
    EXPECT_EQ(end.limit_megabits(), 80);
  }
}

}  // namespace
}  // namespace millrace::test
