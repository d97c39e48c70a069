// The UDP transport: UDP datagrams between machines, without privileges, over any routed network.
// docs/udp.md specifies the wire format and the options with their defaults.
//
// A window of unacknowledged frames per peer protects a slow receiver from overruns: its senders
// become busy instead. A peer that answers no probe for silence_ms is unresponsive: frames to it
// are accepted and dropped (kUnreachable), and probes continue.
#ifndef MILLRACE_TRANSPORT_UDP_TRANSPORT_H_
#define MILLRACE_TRANSPORT_UDP_TRANSPORT_H_

#include <map>
#include <memory>
#include <string>

#include "millrace/transport.h"
#include "transport/udp/socket.h"

namespace millrace {
struct TransportConfig;
}
namespace millrace::inline transport {

struct UdpOptions {
  NodeId node = 0;
  UdpSocketOptions socket;
  std::map<NodeId, std::string> peers;  // in the format of UdpSocketOptions::address
  // 0: the most that fits the path to every peer when the endpoint is created. A larger value
  // requires socket.fragment.
  int64_t max_frame_bytes = 0;
  // Unacknowledged frames to and from each peer; 0: the most that is certain to fit the socket's
  // receive buffer.
  int64_t window_frames = 0;
  int64_t receive_buffers = 32;  // 2 to 4096; one datagram each, or 64 KiB with GRO
  int64_t silence_ms = 2000;     // peer timeout; 1 to 3600000, by `clock`
  const Clock* clock = &DefaultClock();
};

// Creates the endpoint of options.node on `socket`, which is bound already (options.socket is
// ignored). Throws Error with one line that names the option.
std::unique_ptr<Transport> ConnectUdp(UdpSocket socket, const UdpOptions& options);

// The same with a new socket and the options of `config`.
std::unique_ptr<Transport> MakeUdp(const TransportConfig& config);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_UDP_TRANSPORT_H_
