// Whole clusters over RDMA: `millrace train` for each of three nodes, each with a device
// of its own, as a user runs it on three machines.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "test/rdma_vm/fabric.h"
#include "test/rdma_vm/verbs_cases.h"
#include "test/support/problem.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

class ClusterOverVerbs : public testing::Test {
 protected:
  static constexpr int kNodes = 3;

  void SetUp() override {
    const std::string reason = WhyNoVerbs();
    if (!reason.empty()) GTEST_SKIP() << reason;
    // Read for the first time, it takes seconds here; a node that starts so much sooner than
    // the others would begin, and perhaps end, the run without them.
    ASSERT_EQ(test::Run({Binary(), "help"}).status, 0);
  }

  // Trains a small problem on all nodes; they end by themselves, one prints the accuracy.
  void TrainToAccuracy(const std::string& segment_fields) {
    std::string topology = "name: \"test\"\n";
    for (int i = 0; i < kNodes; ++i) {
      topology += Cat("node { name: \"n", i, "\" address: \"10.98.0.", i + 1, "\" }\n");
    }
    topology += Cat("segment { name: \"fabric\" transport: \"verbs\" mtu: 9000 heartbeat_ms: 50 ",
                    "suspect_ms: 20000 ", segment_fields, " }\n");
    WriteFile(work_ / "topology.prototxt", topology);
    const caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(1500), 1500);
    std::vector<std::unique_ptr<Process>> nodes;
    for (int i = 0; i < kNodes; ++i) {
      nodes.push_back(std::make_unique<Process>(std::vector<std::string>{
          Binary(), "train", "--solver=" + work_.Write(Cat("n", i), solver),
          "--topology=" + (work_ / "topology.prototxt"), Cat("--node=n", i)}));
    }
    int printed = 0;
    std::string logs;
    for (int i = 0; i < kNodes; ++i) {
      const CommandResult result = nodes[i]->Wait(100 * Patience());
      EXPECT_EQ(result.status, 0) << "n" << i << ":\n" << result.errors;
      logs += Cat("n", i, ":\n", result.errors);
      const size_t at = result.output.find("accuracy = ");
      if (at == std::string::npos) continue;
      EXPECT_GE(std::stod(result.output.substr(at + 11)), 0.9);
      ++printed;
    }
    EXPECT_EQ(printed, 1) << logs;
  }

  Workspace work_;
};

TEST_F(ClusterOverVerbs, TrainsToAccuracyByMulticast) { TrainToAccuracy(""); }

TEST_F(ClusterOverVerbs, TrainsToAccuracyByCopies) {
  TrainToAccuracy("option { key: \"multicast\" value: \"off\" }");
}

TEST_F(ClusterOverVerbs, TrainsToAccuracyWithLossReorderingAndDuplication) {
  const Disturbance disturbance(
      {0, 1, 2}, {"loss", "10%", "delay", "1ms", "reorder", "25%", "duplicate", "5%"});
  TrainToAccuracy("");
}

}  // namespace
}  // namespace millrace::test
