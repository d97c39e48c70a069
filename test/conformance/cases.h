// The transports that every build can test.
#ifndef MILLRACE_TEST_CONFORMANCE_CASES_H_
#define MILLRACE_TEST_CONFORMANCE_CASES_H_

#include "test/conformance/late_transport.h"
#include "test/conformance/traffic.h"
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
              group.push_back(std::make_unique<LateTransport>(std::move(end), 16));
            }
            return group;
          }};
}

// A link whose first frames take longer than the rest of a test.
inline TransportCase MuchLaterCase() {
  return {"MuchLater", [](const GroupOptions& options) {
            Group group;
            for (auto& end : LoopbackCase().make(options)) {
              group.push_back(std::make_unique<LateTransport>(std::move(end), 1024, 2000));
            }
            return group;
          }};
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CONFORMANCE_CASES_H_
