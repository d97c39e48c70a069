// Connected endpoints of the UDP transport.
#ifndef MILLRACE_TEST_CONFORMANCE_UDP_GROUP_H_
#define MILLRACE_TEST_CONFORMANCE_UDP_GROUP_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/udp/transport.h"

namespace millrace::test {

// Creates all sockets first, since each endpoint needs the ports of the others. make_socket(i)
// creates the socket of node i.
inline std::vector<std::unique_ptr<Transport>> ConnectUdpGroup(
    int nodes, const std::function<UdpSocket(int)>& make_socket, UdpOptions options) {
  std::vector<UdpSocket> sockets;
  for (int node = 0; node < nodes; ++node) sockets.push_back(make_socket(node));
  std::map<NodeId, std::string> addresses;
  for (int node = 0; node < nodes; ++node) {
    addresses[static_cast<NodeId>(node)] = sockets[node].local().Text();
  }
  std::vector<std::unique_ptr<Transport>> group;
  for (int node = 0; node < nodes; ++node) {
    options.node = static_cast<NodeId>(node);
    options.peers = addresses;
    options.peers.erase(options.node);
    group.push_back(ConnectUdp(std::move(sockets[node]), options));
  }
  return group;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CONFORMANCE_UDP_GROUP_H_
