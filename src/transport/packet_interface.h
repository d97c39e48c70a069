// Ethernet addresses, and the network interfaces of this machine (of the calling
// thread's network namespace).
#ifndef MILLRACE_TRANSPORT_PACKET_INTERFACE_H_
#define MILLRACE_TRANSPORT_PACKET_INTERFACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

struct MacAddress {
  std::array<uint8_t, 6> bytes{};

  bool operator==(const MacAddress& other) const = default;
  // Of one device, not of a group, and not zero.
  bool IsUnicast() const { return (bytes[0] & 1) == 0 && *this != MacAddress{}; }
  std::string Text() const;  // "02:00:5e:00:53:01"
};

// The address that `text` is, as Text() writes it, in small or capital letters.
std::optional<MacAddress> ParseMacAddress(const std::string& text);

struct PacketInterface {
  std::string name;
  int index = 0;
  MacAddress address;
  size_t mtu = 0;  // bytes that a frame may have after its Ethernet header
  bool up = false;
};

// The interface that `text` names, by its name or by its Ethernet address; with or
// without IP addresses. Throws Error with one line beginning "transport packet:
// interface=": there is none (lists those there are), several have the address, it is no
// Ethernet device (the loopback device is none), or it is down.
PacketInterface FindPacketInterface(const std::string& text);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_PACKET_INTERFACE_H_
