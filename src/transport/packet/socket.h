// The network interface of the packet transport, and raw sockets on it that receive only the
// Ethernet frames for one node of one group.
#ifndef MILLRACE_TRANSPORT_PACKET_SOCKET_H_
#define MILLRACE_TRANSPORT_PACKET_SOCKET_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "millrace/file_descriptor.h"
#include "millrace/node_id.h"
#include "transport/network_device.h"

namespace millrace::inline transport {

struct PacketInterface {
  std::string name;
  int index = 0;
  MacAddress address;
  size_t mtu = 0;  // largest Ethernet payload, in bytes
};

// Finds an interface by its name or Ethernet address, with or without IP addresses. Throws Error
// with one line that begins with "transport packet: interface=" if there is none (lists the
// available ones), several have the address, it is not an Ethernet device (nor is the loopback
// device), or it is down. Also throws as ListNetworkDevices does.
PacketInterface FindPacketInterface(const std::string& text);

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
