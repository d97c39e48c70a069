// RDMA between the devices that test/rdma_vm/fabric creates, for the conformance suites. Node i has
// address 10.98.0.(i + 1).
#ifndef MILLRACE_TEST_RDMA_VM_VERBS_CASES_H_
#define MILLRACE_TEST_RDMA_VM_VERBS_CASES_H_

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/error.h"
#include "test/conformance/traffic.h"
#include "test/rdma_vm/fabric.h"
#include "transport/credited_endpoint.h"
#include "transport/verbs/transport.h"

namespace millrace::test {

inline constexpr int kVerbsNodes = kFabricNodes;

inline std::string VerbsAddress(int node) { return StrCat(NodeAddress(node), ":", 7700 + node); }

// The options of one of `nodes` nodes.
inline VerbsOptions VerbsOptionsOf(int node, int nodes, VerbsOptions options = {}) {
  options.node = static_cast<NodeId>(node);
  options.address = VerbsAddress(node);
  for (int peer = 0; peer < nodes; ++peer) {
    if (peer != node) options.peers[static_cast<NodeId>(peer)] = VerbsAddress(peer);
  }
  return options;
}

// Waits until all endpoints have found all their peers.
inline void AwaitReach(const Group& group) {
  Guard guard;
  for (const auto& end : group) {
    auto* const windowed = dynamic_cast<CreditedEndpoint*>(end.get());
    while (!windowed->ReachesAll() && guard.Waiting("the peers to be found")) {
      end->Wait(INT64_MIN, WaitFor::kReceive);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

inline Group ConnectVerbsGroup(int nodes, VerbsOptions options) {
  // A new group number, so that frames in flight to the group before it belong to another cluster.
  static int64_t clusters = 0;
  options.group = ++clusters % 65536;
  Group group;
  for (int node = 0; node < nodes; ++node) {
    group.push_back(ConnectVerbs(VerbsOptionsOf(node, nodes, options)));
  }
  AwaitReach(group);
  return group;
}

inline VerbsOptions VerbsOptionsFor(const GroupOptions& group) {
  VerbsOptions options;
  options.clock = group.clock;
  options.silence_ms = SilenceMs(group);
  if (group.small_queues) {
    options.window_frames = 7;
    options.receive_buffers = 128;
    options.send_slots = 16;
  }
  return options;
}

// Why RDMA is not available; "" if it is.
inline std::string WhyNoVerbs() {
  try {
    ConnectVerbs(VerbsOptionsOf(0, 2));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

inline TransportCase VerbsCase(const std::string& name, VerbsMulticast multicast) {
  return {name,
          [=](const GroupOptions& group) {
            VerbsOptions options = VerbsOptionsFor(group);
            options.multicast = multicast;
            return ConnectVerbsGroup(group.nodes, options);
          },
          WhyNoVerbs};
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_RDMA_VM_VERBS_CASES_H_
