// Validates host names, interface names and MAC addresses, and converts them to a canonical form,
// in which equal names are equal strings. Pure functions without lookups.
#ifndef MILLRACE_TRANSPORT_NETWORK_NAMES_H_
#define MILLRACE_TRANSPORT_NETWORK_NAMES_H_

#include <optional>
#include <string>

namespace millrace::inline transport {

// Syntax of a host.
enum class HostKind { kIpv4, kIpv6, kName };
struct NetworkHost {
  HostKind kind = HostKind::kName;
  // Canonical form: IP addresses as inet_ntop prints them (with the zone of a link-local address),
  // host names in lower case.
  std::string text;
};

// Parses a host such as "10.0.0.1", "fe80::1%eth0" or "node7.example.org". None for any other text,
// for example a host with a port.
std::optional<NetworkHost> ParseHost(const std::string& text);

// True for 127.0.0.0/8, ::1 and the name "localhost". Other names are not resolved.
bool IsLoopback(const NetworkHost& host);

// "10.0.0.1:7777", "[fe80::1%eth0]:7777".
std::string HostAndPort(const NetworkHost& host, int port);
struct NetworkEndpoint {
  NetworkHost host;
  int port = 0;  // 0 to 65535
};
// Parses that. None for any other text.
std::optional<NetworkEndpoint> ParseHostAndPort(const std::string& text);

// Parses the MAC address of one adapter, returned in lower case: "52:54:00:ab:...". None if `text`
// is not a MAC address, or is a multicast or the zero address.
std::optional<std::string> ParseMac(const std::string& text);
// Whether `text` is meant as a MAC address, valid or not: it contains a colon, which no interface
// name does.
bool LooksLikeMac(const std::string& text);

// Whether `text` is a valid Linux interface name.
bool IsInterfaceName(const std::string& text);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_NETWORK_NAMES_H_
