#include "cluster/link_speed.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

namespace millrace::inline cluster {
namespace {

bool SameAddress(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || b == nullptr || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  if (a->sa_family != AF_INET6) return false;
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

// Name of the interface that has the host of "HOST:PORT" or "[HOST]:PORT"; "" if none has it.
std::string InterfaceWith(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> free_found(found, freeaddrinfo);
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> free_interfaces(interfaces, freeifaddrs);
  for (const ifaddrs* each = interfaces; each != nullptr; each = each->ifa_next) {
    if (SameAddress(each->ifa_addr, found->ai_addr)) return each->ifa_name;
  }
  return "";
}

}  // namespace

uint32_t LinkMegabits(const SegmentPlan& plan) {
  const auto& options = plan.transport.options;
  std::string name;
  if (const auto given = options.find("interface"); given != options.end()) {
    name = given->second;
  } else if (const auto address = options.find("address"); address != options.end()) {
    name = InterfaceWith(address->second);
  }
  if (name.empty() || name.size() >= IFNAMSIZ) return 0;
  const int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return 0;
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&command);
  const bool said = ioctl(socket_fd, SIOCETHTOOL, &request) == 0;
  close(socket_fd);
  const uint32_t speed = ethtool_cmd_speed(&command);
  return said && speed != static_cast<uint32_t>(SPEED_UNKNOWN) && speed != UINT16_MAX ? speed : 0;
}

}  // namespace millrace::inline cluster
