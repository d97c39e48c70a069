// Unix datagram sockets (examples/extend/unix_transport.cc) in the transport suite. The includer
// registers the transport: by including its file, or by linking or loading it.
#ifndef MILLRACE_TEST_CONFORMANCE_UNIX_TRANSPORT_H_
#define MILLRACE_TEST_CONFORMANCE_UNIX_TRANSPORT_H_

#include <unistd.h>

#include <atomic>
#include <map>
#include <string>

#include "millrace/transport_registry.h"
#include "test/conformance/traffic.h"

namespace millrace::test {

inline TransportConfig UnixConfig(const std::string& group, int node, int nodes,
                                  const Clock* clock = &DefaultClock()) {
  const auto name = [&](int of) { return group + "." + std::to_string(of); };
  TransportConfig config;
  config.transport = "unix";
  config.node = static_cast<NodeId>(node);
  config.clock = clock;
  config.options["socket"] = name(node);
  std::string& peers = config.options["peers"];
  for (int peer = 0; peer < nodes; ++peer) {
    if (peer == node) continue;
    peers += (peers.empty() ? "" : ",") + std::to_string(peer) + "=" + name(peer);
  }
  return config;
}

// A name of this process's own.
inline std::string UnixGroupName() {
  static std::atomic<int> groups{0};
  return "millrace_test." + std::to_string(getpid()) + "." + std::to_string(groups++);
}

inline TransportCase UnixCase() {
  return {"Unix", [](const GroupOptions& options) {
            const std::string name = UnixGroupName();
            Group group;
            for (int node = 0; node < options.nodes; ++node) {
              TransportConfig config = UnixConfig(name, node, options.nodes, options.clock);
              if (options.small_queues) config.options["send_buffer_bytes"] = "131072";
              group.push_back(TransportRegistry::Get().Create(config));
            }
            return group;
          }};
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CONFORMANCE_UNIX_TRANSPORT_H_
