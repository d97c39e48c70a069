#include "topology/machine.h"

#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "segment/cluster_key.h"

namespace millrace {
namespace {

std::string MacText(const unsigned char* bytes) {
  char text[18];
  snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", bytes[0], bytes[1], bytes[2],
           bytes[3], bytes[4], bytes[5]);
  return text;
}

// 0 for one that has gone meanwhile.
int MtuOf(int socket, const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return ioctl(socket, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

}  // namespace

std::vector<NetworkInterface> ListInterfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    throw Error("the network interfaces cannot be listed: ", ErrnoText(errno));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, freeifaddrs);
  // Any socket answers questions about interfaces.
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) throw Error("the network interfaces cannot be read: ", ErrnoText(errno));
  std::vector<NetworkInterface> interfaces;
  for (const ifaddrs* one = first; one; one = one->ifa_next) {
    // Each interface has one entry of this family, beside those of its addresses.
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_PACKET) continue;
    sockaddr_ll link;
    std::memcpy(&link, one->ifa_addr, sizeof(link));
    NetworkInterface interface;
    interface.name = one->ifa_name;
    if (link.sll_halen == 6) interface.mac = MacText(link.sll_addr);
    interface.mtu = MtuOf(socket, interface.name);
    interfaces.push_back(std::move(interface));
  }
  close(socket);
  return interfaces;
}

Machine Machine::This() {
  return {ListInterfaces, [](const std::string& path, const std::string& named_in) {
            std::string found = ResolveBeside(path, named_in);
            ReadKeyFile(found);
            return found;
          }};
}

}  // namespace millrace
