// Whole clusters for tests, on emulated machines (network namespaces).
#ifndef MILLRACE_TEST_NETNS_CLUSTER_OF_MACHINES_H_
#define MILLRACE_TEST_NETNS_CLUSTER_OF_MACHINES_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "test/netns/network.h"
#include "test/support/cluster_of_nodes.h"

namespace millrace::test {

// Nodes a, b, c, ... on machines 0, 1, 2, ... of one network.
class ClusterOfMachines : public ClusterOfNodes {
 protected:
  void SetUp() override {
    const std::string reason = Network::WhyNot();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  void Build(int machines, int mtu = 1500) {
    network_ = std::make_unique<Network>(mtu, machines);
    size_ = machines;
  }

  void Inside(int node, const std::function<void()>& start) override {
    network_->Inside(node, start);
  }

  void WriteTopology(const std::string& segment_fields, const std::string& cluster = "test",
                     const std::string& file = "topology.prototxt",
                     const std::string& fields = "") {
    WriteSegments(
        "segment { name: \"lan\" heartbeat_ms: 50 peer_timeout_ms: 1000 " + segment_fields + " }\n",
        cluster, file, fields);
  }
  // All machines become nodes. `segments` and `fields` are in the syntax of the topology file.
  void WriteSegments(const std::string& segments, const std::string& cluster = "test",
                     const std::string& file = "topology.prototxt",
                     const std::string& fields = "") {
    std::string text = StrCat("name: \"", cluster, "\"\n", fields, "\n");
    for (int i = 0; i < size_; ++i) {
      text += StrCat("node { name: \"", NameOf(i), "\" address: \"", Network::AddressOf(i),
                     "\" interface: \"", Network::DeviceOf(i), "\" mac: \"", Network::MacOf(i),
                     "\" }\n");
    }
    WriteFile(work_ / file, text + segments);
  }

  std::unique_ptr<Network> network_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NETNS_CLUSTER_OF_MACHINES_H_
