// Frames as unreliable datagrams of RDMA devices (InfiniBand, RoCE v2): sent by the device
// from the caller's memory, received into buffers of the process, without a system call
// for each. docs/rdma.md has the datagrams byte by byte, the options with their defaults
// and what an operator has to set up.
//
// A frame to all nodes is one datagram to a multicast group, of which each node has its
// own. Windows and silent peers are as those of the UDP transport (docs/udp.md).
#ifndef MILLRACE_TRANSPORT_VERBS_TRANSPORT_H_
#define MILLRACE_TRANSPORT_VERBS_TRANSPORT_H_

#include <map>
#include <memory>
#include <string>

#include "transport/transport.h"

namespace millrace {

enum class VerbsMulticast {
  kAuto,  // if the fabric grants it, else copies, which the log says
  kOff,   // a copy to each peer
  kOn,    // an endpoint that is refused its group is an error
};

struct VerbsOptions {
  NodeId node = 0;
  std::string address;                  // HOST:PORT of this node; says which device
  std::map<NodeId, std::string> peers;  // theirs
  int64_t group = 0;                    // 0 to 65535: clusters in one fabric have different ones
  VerbsMulticast multicast = VerbsMulticast::kAuto;
  // The multicast group of node 0; node n has that whose last 16 bits are higher by n.
  // Empty: one that follows from `group`.
  std::string multicast_base;
  int64_t max_frame_bytes = 0;  // 0: as many as the port's MTU takes
  int64_t window_frames = 0;    // unconfirmed frames to and from each peer; 0: as many as
                                // the buffers surely hold
  int64_t receive_buffers = 0;  // 16 to 32768; 0: 128 for each peer, 1024 at least
  int64_t send_slots = 512;     // datagrams that the device may have to send; 16 to 32768
  int64_t silence_ms = 2000;    // 1 to 3600000, by `clock`
  const Clock* clock = &DefaultClock();
};

// The endpoint of options.node. Throws Error with one line that names the option, or says
// what the machine lacks.
std::unique_ptr<Transport> ConnectVerbs(const VerbsOptions& options);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_VERBS_TRANSPORT_H_
