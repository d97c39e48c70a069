// Frames as UDP datagrams between machines: no privilege, any network that routes.
// docs/udp.md has the datagrams byte by byte and the options with their defaults.
//
// A window of unconfirmed frames for each peer keeps a receiver that falls behind
// from losing what is sent to it: its sender becomes busy. A peer that does not
// answer for silence_ms is taken to be gone: frames to it are accepted and dropped
// (kUnreachable), and it is asked again now and then.
#ifndef MILLRACE_TRANSPORT_UDP_TRANSPORT_H_
#define MILLRACE_TRANSPORT_UDP_TRANSPORT_H_

#include <map>
#include <memory>
#include <string>

#include "transport/transport.h"
#include "transport/udp/socket.h"

namespace millrace {

struct UdpOptions {
  NodeId node = 0;
  UdpSocketOptions socket;
  std::map<NodeId, std::string> peers;  // their addresses, as UdpSocketOptions::address
  // 0: the most that fits the path to every peer, read when the endpoint is made. More
  // than that only with socket.fragment.
  int64_t max_frame_bytes = 0;
  int64_t window_frames = 0;     // unconfirmed frames to and from each peer; 0: as
                                 // many as the socket's receive buffer surely holds
  int64_t receive_buffers = 32;  // 2 to 4096, each of one datagram or, with GRO, 64 KiB
  int64_t silence_ms = 2000;     // 1 to 3600000, by `clock`
  const Clock* clock = &DefaultClock();
};

// The endpoint of options.node on a socket that is bound already (options.socket is
// not read). Throws Error with one line that names the option.
std::unique_ptr<Transport> ConnectUdp(UdpSocket socket, const UdpOptions& options);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_UDP_TRANSPORT_H_
