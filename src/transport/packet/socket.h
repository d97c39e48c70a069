// Raw sockets on one network interface, which get only the Ethernet frames that are
// meant for one node of one group.
#ifndef MILLRACE_TRANSPORT_PACKET_SOCKET_H_
#define MILLRACE_TRANSPORT_PACKET_SOCKET_H_

#include <cstdint>

#include "base/file_descriptor.h"
#include "base/node_id.h"
#include "transport/packet/interface.h"

namespace millrace {

struct PacketFilter {
  uint16_t group = 0;
  NodeId node = 0;       // frames to it
  bool credits = false;  // credits only; else all but credits
};

// A raw socket that gets nothing until it is bound. Throws Error with one line: without
// CAP_NET_RAW it says how to grant it.
FileDescriptor OpenPacketSocket();

// From now on the socket gets what passes `filter` (checked by the kernel) of what
// arrives at `interface` for this machine: never what this machine sends, nor what a
// promiscuous interface takes in for others. What it sends goes out there. Throws Error
// with one line.
void BindPacketSocket(int fd, const PacketInterface& interface, const PacketFilter& filter);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_PACKET_SOCKET_H_
