// The address of a UDP socket, IPv4 or IPv6, as text and as a kernel structure.
#ifndef MILLRACE_TRANSPORT_INET_ADDRESS_H_
#define MILLRACE_TRANSPORT_INET_ADDRESS_H_

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace millrace::inline transport {

// Bytes of the IP and UDP headers of a datagram.
inline constexpr size_t kIpv4UdpBytes = 20 + 8, kIpv6UdpBytes = 40 + 8;

struct InetAddress {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };

  InetAddress() : v6{} {}

  // False for a peer whose address is not known.
  bool is_known() const { return any.sa_family != AF_UNSPEC; }
  bool is_v6() const { return any.sa_family == AF_INET6; }
  socklen_t length() const { return is_v6() ? sizeof(v6) : sizeof(v4); }
  uint16_t port() const { return ntohs(is_v6() ? v6.sin6_port : v4.sin_port); }
  size_t header_bytes() const { return is_v6() ? kIpv6UdpBytes : kIpv4UdpBytes; }
  // "10.0.0.1:7777", "[::1]:7777".
  std::string Text() const;
  // Compares family, address and port, and the scope of IPv6 addresses.
  bool operator==(const InetAddress& other) const;
  uint64_t Hash() const;
};

// The address "10.0.0.1:7777" or "[fe80::1%eth0]:7777"; none for any other text. Resolves nothing.
std::optional<InetAddress> ParseInetAddress(const std::string& text);

// Resolves "10.0.0.1:7777", "[fe80::1%eth0]:7777" or "host:7777" to the first address that the
// system resolver returns. Throws Error with one line that begins with `field` (the name of the
// setting) and contains `text`.
InetAddress ResolveUdpAddress(const std::string& field, const std::string& text);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_INET_ADDRESS_H_
