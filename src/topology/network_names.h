// The names by which a topology file speaks of hosts and adapters: whether a text is
// one, and a form in which equal ones are equal texts. Pure functions; nothing is
// looked up.
#ifndef MILLRACE_TOPOLOGY_NETWORK_NAMES_H_
#define MILLRACE_TOPOLOGY_NETWORK_NAMES_H_

#include <optional>
#include <string>

namespace millrace {

// What a host is written as.
enum class HostKind { kIpv4, kIpv6, kName };
struct NetworkHost {
  HostKind kind = HostKind::kName;
  // IP addresses as inet_ntop prints them (with the zone of a link-local one), names in
  // lower case.
  std::string text;
};

// The host of "10.0.0.1", "fe80::1%eth0" or "node7.example.org"; none for anything
// else, such as a text with a port.
std::optional<NetworkHost> ParseHost(const std::string& text);

// An address of the loopback interface: of 127.0.0.0/8, or ::1. Of names only "localhost" is
// taken for one.
bool IsLoopback(const NetworkHost& host);

// "10.0.0.1:7777", "[fe80::1%eth0]:7777".
std::string HostAndPort(const NetworkHost& host, int port);

// A MAC address of one adapter, "52:54:00:aB:..." in lower case; none if `text` is no
// MAC address, or is one of a group or of nobody.
std::optional<std::string> ParseMac(const std::string& text);
// Whether `text` is meant as a MAC address, right or wrong: it holds a colon, which no
// interface's name does.
bool LooksLikeMac(const std::string& text);

// Whether Linux could have a network interface of that name.
bool IsInterfaceName(const std::string& text);

// Whether `text` may name a cluster, node, adapter or segment.
bool IsTopologyName(const std::string& text);

}  // namespace millrace

#endif  // MILLRACE_TOPOLOGY_NETWORK_NAMES_H_
