// The fabric that test/rdma_vm/fabric makes, and what can befall it.
#ifndef MILLRACE_TEST_RDMA_VM_FABRIC_H_
#define MILLRACE_TEST_RDMA_VM_FABRIC_H_

#include <string>
#include <vector>

#include "test/support/support.h"

namespace millrace::test {

inline constexpr int kFabricNodes = 4;

// Runs a program, found as a shell finds it.
inline std::string RunOrFail(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "/usr/bin/env");
  const CommandResult result = Run(arguments);
  EXPECT_EQ(result.status, 0) << arguments[1] << ": " << result.errors;
  return result.output;
}

// Node i's cable.
inline std::string NodeDevice(int node) { return "e" + std::to_string(node + 1); }
inline std::string SwitchPort(int node) { return "p" + std::to_string(node + 1); }
inline std::string NodeAddress(int node) { return "10.98.0." + std::to_string(node + 1); }

// Pulls node i's cable, or puts it back.
inline void SetLink(int node, bool up) {
  RunOrFail({"ip", "link", "set", NodeDevice(node), up ? "up" : "down"});
  // Routes go with the device; on a machine of its own it would have but that of its subnet,
  // which comes back by itself.
  for (int peer = 0; up && peer < kFabricNodes; ++peer) {
    if (peer == node) continue;
    RunOrFail({"ip", "route", "replace", NodeAddress(peer) + "/32", "dev", NodeDevice(node), "src",
               NodeAddress(node), "table", std::to_string(101 + node)});
  }
}

// While it lives, the switch does that to what it passes on to the nodes: "loss 10%".
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
