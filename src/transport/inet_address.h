// The address of a UDP socket, IPv4 or IPv6, as text and as a kernel structure.
#ifndef MILLRACE_TRANSPORT_INET_ADDRESS_H_
#define MILLRACE_TRANSPORT_INET_ADDRESS_H_

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/transport.h"

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

// The addresses of a UDP endpoint's peers. Not thread-safe.
class InetPeers {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  // All known addresses must differ.
  explicit InetPeers(const std::map<NodeId, InetAddress>& addresses);

  // A peer is identified by its index in [0, size()), in ascending order of node ids.
  size_t size() const { return addresses_.size(); }
  const InetAddress& operator[](size_t index) const { return addresses_[index]; }
  size_t Find(const InetAddress& address) const;  // kNone if the address belongs to no peer
  // Changes the address of a peer. Another one that had it has none any more.
  void Set(size_t index, const InetAddress& address);

 private:
  void Index();

  std::vector<InetAddress> addresses_;
  std::vector<size_t> by_hash_;  // open addressing; a power of two, at most half full
};

// Resolves option `peers` of `transport` for node `self` at address `own`. Throws Error with one
// line that names the peer if its id is not that of another node, its address family differs from
// that of `own`, its port is 0, or its address is already in use. Throws Error if `peers` is
// empty. With `may_be_unknown`, "" stands for a peer whose address is not known yet.
std::map<NodeId, InetAddress> ResolveUdpPeers(const std::string& transport, NodeId self,
                                              const InetAddress& own,
                                              const std::map<NodeId, std::string>& peers,
                                              bool may_be_unknown = false);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_INET_ADDRESS_H_
