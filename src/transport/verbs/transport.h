// The verbs transport: unreliable datagrams of RDMA devices (InfiniBand, RoCE v2). The device
// reads frames from the caller's memory and writes received ones into buffers of the process,
// without a system call per frame. docs/rdma.md specifies the wire format and the options with
// their defaults, and explains how to set up a fabric.
//
// A frame to all nodes is one datagram to the sender's own multicast group. Flow control and
// unresponsive peers: as in the UDP transport (docs/udp.md).
#ifndef MILLRACE_TRANSPORT_VERBS_TRANSPORT_H_
#define MILLRACE_TRANSPORT_VERBS_TRANSPORT_H_

#include <map>
#include <memory>
#include <string>

#include "millrace/transport.h"

namespace millrace::inline transport {

enum class VerbsMulticast {
  kAuto,  // multicast if the fabric grants it, else copies and a log message
  kOff,   // one copy per peer
  kOn,    // error if the fabric refuses this node's group
};

struct VerbsOptions {
  NodeId node = 0;
  std::string address;                  // HOST:PORT of this node; selects the device
  std::map<NodeId, std::string> peers;  // their addresses
  int64_t group = 0;                    // 0 to 65535; differs between clusters on one fabric
  VerbsMulticast multicast = VerbsMulticast::kAuto;
  // Multicast address of node 0; that of node n is higher by n in the last 16 bits. Empty:
  // derived from `group`.
  std::string multicast_base;
  int64_t max_frame_bytes = 0;  // 0: the most that fits the port's MTU
  // Unacknowledged frames to and from each peer, per stream; 0: the most that is certain to fit
  // the receive buffers.
  int64_t window_frames = 0;
  int64_t receive_buffers = 0;  // 16 to 32768; 0: 128 per peer, at least 1024
  int64_t send_slots = 512;     // datagrams queued in the device; 16 to 32768
  int64_t silence_ms = 2000;    // peer timeout; 1 to 3600000, by `clock`
  const Clock* clock = &DefaultClock();
};

// Creates the endpoint of options.node. Throws Error with one line that names the option or what
// the machine lacks.
std::unique_ptr<Transport> ConnectVerbs(const VerbsOptions& options);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_VERBS_TRANSPORT_H_
