// Ethernet addresses, and the network devices in the calling thread's network namespace.
#ifndef MILLRACE_TRANSPORT_NETWORK_DEVICE_H_
#define MILLRACE_TRANSPORT_NETWORK_DEVICE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace::inline transport {

struct MacAddress {
  std::array<uint8_t, 6> bytes{};

  bool operator==(const MacAddress& other) const = default;
  // True for the address of a single device: not a group address and not zero.
  bool IsUnicast() const { return (bytes[0] & 1) == 0 && *this != MacAddress{}; }
  std::string Text() const;  // "02:00:5e:00:53:01"
};

// Parses the format of Text(), in lower or upper case.
std::optional<MacAddress> ParseMacAddress(const std::string& text);

struct NetworkDevice {
  std::string name;
  int index = 0;
  // 6-byte addresses only. Zero for the loopback device; a tunnel may have none.
  std::optional<MacAddress> address;
  size_t mtu = 0;  // largest packet in bytes; 0: the device has disappeared
  bool up = false, ethernet = false, loopback = false;
};

// In the kernel's order, with or without IP addresses. Throws Error.
std::vector<NetworkDevice> ListNetworkDevices();

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_NETWORK_DEVICE_H_
