// The transports that every build can test.
#ifndef MILLRACE_TEST_CONFORMANCE_CASES_H_
#define MILLRACE_TEST_CONFORMANCE_CASES_H_

#include "test/conformance/traffic.h"
#include "test/support/fake_link.h"
#include "test/support/fake_transport.h"
#include "transport/credited_endpoint.h"
#include "transport/faulty/transport.h"
#include "transport/loopback/transport.h"

namespace millrace::test {

inline TransportCase LoopbackCase() {
  return {"Loopback", [](const GroupOptions& options) {
            LoopbackHub hub({.nodes = options.nodes,
                             .queue_frames = options.small_queues ? 7 : 256,
                             .clock = options.clock});
            Group group;
            for (int node = 0; node < options.nodes; ++node) group.push_back(hub.Connect(node));
            return group;
          }};
}

// `inner` under a decorator that injects no faults.
inline TransportCase FaultlessCase(const TransportCase& inner) {
  return {"Faultless" + inner.name,
          [inner](const GroupOptions& options) {
            FaultPlan plan;
            plan.clock = options.clock;
            plan.hold_frames = options.small_queues ? 5 : 64;
            Group group;
            for (auto& end : inner.make(options)) {
              group.push_back(std::make_unique<FaultyTransport>(std::move(end), plan));
            }
            return group;
          },
          inner.why_not};
}

// Sends from the caller's memory after Send has returned.
inline TransportCase LateCase() {
  return {"Late", [](const GroupOptions& options) {
            Group group;
            for (auto& end : LoopbackCase().make(options)) {
              group.push_back(std::make_unique<FakeTransport>(
                  std::move(end), FakeTransportOptions{.outstanding = 16}));
            }
            return group;
          }};
}

// Credited endpoints over links with the properties of RDMA: one datagram reaches all peers, frames
// are read from the caller's memory after Send has returned, and peers must be found first.
inline TransportCase MemoryCase() {
  return {"Memory", [](const GroupOptions& options) {
            const auto wire = std::make_shared<FakeWire>(options.nodes);
            Group group;
            for (NodeId node = 0; node < options.nodes; ++node) {
              CreditedPlan plan;
              plan.info.name = "memory";
              plan.info.node = node;
              for (NodeId peer = 0; peer < options.nodes; ++peer) {
                if (peer != node) plan.info.peers.push_back(peer);
              }
              plan.info.max_frame_bytes = 2000;
              plan.info.multicast = true;
              plan.window_frames = options.small_queues ? 7 : 100;
              plan.max_unfinished = options.small_queues ? 16 : 200;
              plan.receive_queue_frames = 1000;
              plan.silence_ns = SilenceMs(options) * 1'000'000;
              plan.clock = options.clock;
              auto link =
                  std::make_unique<FakeLink>(wire, node,
                                             FakeLinkOptions{.outstanding = plan.max_unfinished,
                                                             .buffers = plan.receive_queue_frames,
                                                             .finds_peers = true});
              group.push_back(std::make_unique<CreditedEndpoint>(std::move(link), plan));
            }
            for (auto& end : group) end->Wait(INT64_MIN, WaitFor::kReceive);  // finds the others
            return group;
          }};
}

// A link whose first frames take longer than the rest of a test.
inline TransportCase MuchLaterCase() {
  return {"MuchLater", [](const GroupOptions& options) {
            Group group;
            for (auto& end : LoopbackCase().make(options)) {
              group.push_back(std::make_unique<FakeTransport>(
                  std::move(end), FakeTransportOptions{.outstanding = 1024, .idle_calls = 2000}));
            }
            return group;
          }};
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CONFORMANCE_CASES_H_
