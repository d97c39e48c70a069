#include "transport/packet_interface.h"

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

#include "base/error.h"
#include "base/file_descriptor.h"

namespace millrace {
namespace {

struct Device {
  PacketInterface interface;
  bool ethernet = false, loopback = false;
};

size_t MtuOf(const std::string& name) {
  const FileDescriptor any(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(any.get(), SIOCGIFMTU, &request) != 0) {
    throw Error("transport packet: interface=", name, ": its MTU is not known: ", ErrnoText(errno));
  }
  return static_cast<size_t>(std::max(request.ifr_mtu, 0));
}

std::vector<Device> ListDevices() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) {
    throw Error("transport packet: interface: the machine's are not known: ", ErrnoText(errno));
  }
  std::vector<Device> devices;
  for (const ifaddrs* each = all; each; each = each->ifa_next) {
    if (!each->ifa_addr || each->ifa_addr->sa_family != AF_PACKET) continue;
    sockaddr_ll link;
    std::memcpy(&link, each->ifa_addr, sizeof(link));
    Device device;
    device.interface.name = each->ifa_name;
    device.interface.index = link.sll_ifindex;
    device.interface.up = (each->ifa_flags & IFF_UP) != 0;
    device.loopback = (each->ifa_flags & IFF_LOOPBACK) != 0;
    device.ethernet = link.sll_hatype == ARPHRD_ETHER && link.sll_halen == 6;
    if (device.ethernet) std::copy_n(link.sll_addr, 6, device.interface.address.bytes.begin());
    devices.push_back(device);
  }
  freeifaddrs(all);
  return devices;
}

std::string Names(const std::vector<Device>& devices) {
  std::string names;
  for (const Device& device : devices) {
    if (!device.ethernet) continue;
    names += Cat(names.empty() ? "" : ", ", device.interface.name, " (",
                 device.interface.address.Text(), ")");
  }
  return names.empty() ? "none" : names;
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

PacketInterface FindPacketInterface(const std::string& text) {
  const std::string field = Cat("transport packet: interface=", text, ": ");
  const std::vector<Device> devices = ListDevices();
  const auto address = ParseMacAddress(text);
  std::vector<Device> found;
  for (const Device& device : devices) {
    const bool is_it = address ? device.ethernet && device.interface.address == *address
                               : device.interface.name == text;
    if (is_it) found.push_back(device);
  }
  if (found.empty()) {
    throw Error(field, "there is no such interface: expected one of ", Names(devices));
  }
  if (found.size() > 1) {
    throw Error(field, "several have this address: expected a name, one of ", Names(found));
  }
  PacketInterface interface = found[0].interface;
  if (found[0].loopback) {
    throw Error(field, "this is the loopback device: expected one of ", Names(devices),
                ", or transport udp");
  }
  if (!found[0].ethernet) {
    throw Error(field, "this is no Ethernet device: expected one of ", Names(devices));
  }
  if (!interface.up) {
    throw Error(field, "it is down: expected one that is up (ip link set ", interface.name, " up)");
  }
  interface.mtu = MtuOf(interface.name);
  return interface;
}

}  // namespace millrace
