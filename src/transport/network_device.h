// Ethernet addresses, and the network devices of this machine (of the calling thread's
// network namespace), whatever is to be done with them.
#ifndef MILLRACE_TRANSPORT_NETWORK_DEVICE_H_
#define MILLRACE_TRANSPORT_NETWORK_DEVICE_H_

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

struct NetworkDevice {
  std::string name;
  int index = 0;
  // Of 6 bytes; the loopback device's is zero, a tunnel may have none.
  std::optional<MacAddress> address;
  size_t mtu = 0;  // bytes that a packet may have; 0: the device has gone meanwhile
  bool up = false, ethernet = false, loopback = false;
};

// In the kernel's order, with or without IP addresses. Throws Error.
std::vector<NetworkDevice> ListNetworkDevices();

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_NETWORK_DEVICE_H_
