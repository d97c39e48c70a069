// The fabric that test/rdma_vm/fabric creates, and its faults.
#ifndef MILLRACE_TEST_RDMA_VM_FABRIC_H_
#define MILLRACE_TEST_RDMA_VM_FABRIC_H_

#include <string>
#include <vector>

#include "test/support/support.h"

namespace millrace::test {

inline constexpr int kFabricNodes = 4;

// Runs a program, searched in PATH, and returns its output; fails the test if the program fails.
inline std::string RunOrFail(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "/usr/bin/env");
  const CommandResult result = Run(arguments);
  EXPECT_EQ(result.status, 0) << arguments[1] << ": " << result.errors;
  return result.output;
}

// Names of the two ends of node i's cable, and the node's address.
inline std::string NodeDevice(int node) { return "e" + std::to_string(node + 1); }
inline std::string SwitchPort(int node) { return "p" + std::to_string(node + 1); }
inline std::string NodeAddress(int node) { return "10.98.0." + std::to_string(node + 1); }

// Disconnects or reconnects node i's cable.
inline void SetLink(int node, bool up) {
  RunOrFail({"ip", "link", "set", NodeDevice(node), up ? "up" : "down"});
  // The routes are removed with the device. A machine of its own would have only the route of its
  // subnet, which the kernel restores.
  for (int peer = 0; up && peer < kFabricNodes; ++peer) {
    if (peer == node) continue;
    RunOrFail({"ip", "route", "replace", NodeAddress(peer) + "/32", "dev", NodeDevice(node), "src",
               NodeAddress(node), "table", std::to_string(101 + node)});
  }
}

// While it exists, the switch applies a netem rule, such as "loss 10%", to frames for the nodes.
class Disturbance {
 public:
  Disturbance(std::vector<int> nodes, const std::vector<std::string>& netem)
      : nodes_(std::move(nodes)) {
    for (const int node : nodes_) {
      std::vector<std::string> command = {
          "tc", "-n", "switch", "qdisc", "add", "dev", SwitchPort(node), "root", "netem"};
      command.insert(command.end(), netem.begin(), netem.end());
      command.insert(command.end(), {"limit", "10000"});
      RunOrFail(command);
    }
  }
  ~Disturbance() {
    for (const int node : nodes_) {
      RunOrFail({"tc", "-n", "switch", "qdisc", "del", "dev", SwitchPort(node), "root"});
    }
  }
  Disturbance(const Disturbance&) = delete;
  Disturbance& operator=(const Disturbance&) = delete;

 private:
  const std::vector<int> nodes_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_RDMA_VM_FABRIC_H_
