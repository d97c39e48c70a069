// Whole clusters over RDMA: each node has its own device of the fabric, as on a machine of its own.
#ifndef MILLRACE_TEST_RDMA_VM_CLUSTER_OF_DEVICES_H_
#define MILLRACE_TEST_RDMA_VM_CLUSTER_OF_DEVICES_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "test/rdma_vm/fabric.h"
#include "test/rdma_vm/verbs_cases.h"
#include "test/support/cluster_of_nodes.h"

namespace millrace::test {

// Nodes a, b, c, ... at 10.98.0.1, 2, 3, ...
class ClusterOfDevices : public ClusterOfNodes {
 protected:
  void SetUp() override {
    const std::string reason = WhyNoVerbs();
    if (!reason.empty()) GTEST_SKIP() << reason;
    size_ = 3;
  }

  // The topology of the given nodes; of all nodes if `nodes` is empty.
  void WriteTopology(const std::string& segments, const std::string& cluster = "test",
                     const std::string& file = "topology.prototxt", std::vector<int> nodes = {}) {
    std::string text = StrCat("name: \"", cluster, "\"\n");
    const bool all = nodes.empty();
    for (int i = 0; all && i < size_; ++i) nodes.push_back(i);
    for (int node : nodes) {
      text += StrCat("node { name: \"", NameOf(node), "\" address: \"",
                     NodeAddress(node % devices_), "\" }\n");
    }
    WriteFile(work_ / file, text + segments);
  }
  // One segment for all weights. The peer timeout is long, since another process may occupy the
  // processor for seconds here.
  static std::string Segment(const std::string& fields = "", const std::string& name = "fabric") {
    return StrCat(
        "segment { name: \"", name, "\" transport: \"verbs\" mtu: 9000 heartbeat_ms: 100 ",
        fields.find("peer_timeout_ms") == std::string::npos ? "peer_timeout_ms: 20000 " : "",
        fields, " }\n");
  }
  static std::string Multicast(const std::string& value) {
    return StrCat("option { key: \"multicast\" value: \"", value, "\" } ");
  }

  // Command prefix of a node whose fabric refuses all multicast groups.
  static std::vector<std::string> RefusedGroups() {
    return {"/usr/bin/env",
            "LD_PRELOAD=" + Binary().substr(0, Binary().rfind('/')) + "/test/refuse_groups.so"};
  }

  // Accuracy of a model on the first batches of test images.
  double AccuracyOf(const std::string& model, int batches) {
    const CommandResult result = test::Run({Binary(), "test", "--model=" + (work_ / "net.prototxt"),
                                            "--weights=" + model, StrCat("--iterations=", batches)},
                                           120 * Patience());
    EXPECT_EQ(result.status, 0) << result.errors;
    return Accuracy({result}).first;
  }
  // Checks the accuracy of the one model that was saved.
  void ExpectAccuracy(double least, int batches = 2) {
    const std::vector<std::string> models = Models();
    ASSERT_EQ(models.size(), 1u);
    EXPECT_GE(AccuracyOf(models[0], batches), least);
  }

  // Lets nodes that were started without an iteration limit train for this many iterations once all
  // have begun. Some nodes begin several seconds later than others, since the program is first read
  // from disk. With a limit, the run could end before the last node joins, which would then
  // bootstrap a run of its own.
  std::vector<CommandResult> TrainTogether(int64_t iterations) {
    for (int i = 0; i < size_; ++i) AwaitIteration(i, 1);
    const int64_t then = Iteration(0);
    for (int i = 0; i < size_; ++i) AwaitIteration(i, then + iterations);
    return StopAll();
  }

  int devices_ = kFabricNodes;  // node i uses device i % devices_
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_RDMA_VM_CLUSTER_OF_DEVICES_H_
