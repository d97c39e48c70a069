// Selects the network interface of the packet transport.
#ifndef MILLRACE_TRANSPORT_PACKET_INTERFACE_H_
#define MILLRACE_TRANSPORT_PACKET_INTERFACE_H_

#include <cstddef>
#include <string>

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

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_PACKET_INTERFACE_H_
