// Helpers shared by the tests of topology files.
#ifndef MILLRACE_TEST_TOPOLOGY_TOPOLOGY_SUPPORT_H_
#define MILLRACE_TEST_TOPOLOGY_TOPOLOGY_SUPPORT_H_

#include <string>
#include <vector>

#include "test/support/support.h"
#include "topology/topology.h"

namespace millrace::test {

inline const std::vector<std::string> kTransports = {"packet", "udp"};

// Parses `text` as a file named "f".
inline Topology Parse(const std::string& text) { return ParseTopology(text, "f", kTransports); }
inline std::string ParseError(const std::string& text) {
  return ErrorOf([&] { Parse(text); });
}

// Lines 1 to 4: a cluster of nodes a, b and c with everything that udp and packet require.
inline const std::string kThree =
    "name: 'cluster'\n"
    "node { name: 'a' address: '10.0.0.1' interface: 'eth0' mac: '02:00:00:00:00:01' }\n"
    "node { name: 'b' address: '10.0.0.2' interface: 'eth0' mac: '02:00:00:00:00:02' }\n"
    "node { name: 'c' address: '10.0.0.3' interface: 'eth0' mac: '02:00:00:00:00:03' }\n";

// kThree, followed in line 5 by a segment over udp with `fields`.
inline std::string WithUdp(const std::string& fields) {
  return kThree + "segment { name: 's' transport: 'udp' " + fields + " }\n";
}
inline std::string WithPacket(const std::string& fields) {
  return kThree + "segment { name: 's' transport: 'packet' " + fields + " }\n";
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_TOPOLOGY_TOPOLOGY_SUPPORT_H_
