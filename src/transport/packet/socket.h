// Raw sockets on one network interface that receive only the Ethernet frames for one node of one
// group.
#ifndef MILLRACE_TRANSPORT_PACKET_SOCKET_H_
#define MILLRACE_TRANSPORT_PACKET_SOCKET_H_

#include <cstdint>

#include "millrace/file_descriptor.h"
#include "millrace/node_id.h"
#include "transport/packet/interface.h"

namespace millrace::inline transport {

struct PacketFilter {
  uint16_t group = 0;
  NodeId node = 0;       // the destination node
  bool credits = false;  // true: only credits; false: everything but credits
};

// Opens a raw socket that receives nothing until it is bound. Throws Error with one line; if
// CAP_NET_RAW is missing, the line says how to grant it.
FileDescriptor OpenPacketSocket();

// Binds the socket to `interface`, for sending and receiving. From now on it receives the frames
// that arrive there for this machine and pass `filter`, which the kernel applies. It never
// receives frames that this machine sends, or frames for other machines that a promiscuous
// interface picks up. Throws Error with one line.
void BindPacketSocket(int fd, const PacketInterface& interface, const PacketFilter& filter);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_PACKET_SOCKET_H_
