#include "transport/network_device.h"

#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "millrace/file_descriptor.h"

namespace millrace::inline transport {
namespace {

size_t MtuOf(int socket, const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(socket, SIOCGIFMTU, &request) != 0) return 0;
  return static_cast<size_t>(std::max(request.ifr_mtu, 0));
}

NetworkDevice DeviceOf(const ifaddrs& entry, int socket) {
  sockaddr_ll link;
  std::memcpy(&link, entry.ifa_addr, sizeof(link));
  NetworkDevice device;
  device.name = entry.ifa_name;
  device.index = link.sll_ifindex;
  device.mtu = MtuOf(socket, device.name);
  device.up = (entry.ifa_flags & IFF_UP) != 0;
  device.loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0;
  if (link.sll_halen == MacAddress{}.bytes.size()) {
    std::copy_n(link.sll_addr, link.sll_halen, device.address.emplace().bytes.begin());
  }
  device.ethernet = link.sll_hatype == ARPHRD_ETHER && device.address;
  return device;
}

}  // namespace

std::string MacAddress::Text() const {
  char text[18];
  std::snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", bytes[0], bytes[1], bytes[2],
                bytes[3], bytes[4], bytes[5]);
  return text;
}

std::optional<MacAddress> ParseMacAddress(const std::string& text) {
  MacAddress address;
  if (text.size() != 17) return std::nullopt;
  for (size_t i = 0; i < 6; ++i) {
    const char* digits = text.data() + 3 * i;
    const auto result = std::from_chars(digits, digits + 2, address.bytes[i], 16);
    if (result.ec != std::errc() || result.ptr != digits + 2) return std::nullopt;
    if (i < 5 && digits[2] != ':') return std::nullopt;
  }
  return address;
}

std::vector<NetworkDevice> ListNetworkDevices() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    throw Error("the network interfaces cannot be listed: ", ErrnoText(errno));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, freeifaddrs);
  // A socket of any family supports interface ioctls.
  const FileDescriptor any(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (any.get() < 0) throw Error("the network interfaces cannot be read: ", ErrnoText(errno));
  std::vector<NetworkDevice> devices;
  for (const ifaddrs* each = first; each; each = each->ifa_next) {
    // Each device has one AF_PACKET entry, besides one per IP address.
    if (!each->ifa_addr || each->ifa_addr->sa_family != AF_PACKET) continue;
    devices.push_back(DeviceOf(*each, any.get()));
  }
  return devices;
}

}  // namespace millrace::inline transport
