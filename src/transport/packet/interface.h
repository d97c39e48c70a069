// Which of this machine's network interfaces the packet transport uses.
#ifndef MILLRACE_TRANSPORT_PACKET_INTERFACE_H_
#define MILLRACE_TRANSPORT_PACKET_INTERFACE_H_

#include <cstddef>
#include <string>

#include "transport/network_device.h"

namespace millrace {

struct PacketInterface {
  std::string name;
  int index = 0;
  MacAddress address;
  size_t mtu = 0;  // bytes that a frame may have after its Ethernet header
};

// The interface that `text` names, by its name or by its Ethernet address; with or
// without IP addresses. Throws Error with one line beginning "transport packet:
// interface=": there is none (lists those there are), several have the address, it is no
// Ethernet device (the loopback device is none), or it is down; as ListNetworkDevices
// does where the kernel lists none.
PacketInterface FindPacketInterface(const std::string& text);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_PACKET_INTERFACE_H_
