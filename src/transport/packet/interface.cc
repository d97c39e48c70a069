#include "transport/packet/interface.h"

#include <optional>
#include <vector>

#include "base/error.h"

namespace millrace::inline transport {
namespace {

std::string Names(const std::vector<NetworkDevice>& devices) {
  std::string names;
  for (const NetworkDevice& device : devices) {
    if (!device.ethernet) continue;
    names += StrCat(names.empty() ? "" : ", ", device.name, " (", device.address->Text(), ")");
  }
  return names.empty() ? "none" : names;
}

}  // namespace

PacketInterface FindPacketInterface(const std::string& text) {
  const std::string field = StrCat("transport packet: interface=", text, ": ");
  const std::vector<NetworkDevice> devices = ListNetworkDevices();
  const auto address = ParseMacAddress(text);
  std::vector<NetworkDevice> found;
  for (const NetworkDevice& device : devices) {
    const bool is_it = address ? device.ethernet && device.address == address : device.name == text;
    if (is_it) found.push_back(device);
  }
  if (found.empty()) {
    throw Error(field, "there is no such interface: expected one of ", Names(devices));
  }
  if (found.size() > 1) {
    throw Error(field, "several have this address: expected a name, one of ", Names(found));
  }
  const NetworkDevice& device = found[0];
  if (device.loopback) {
    throw Error(field, "this is the loopback device: expected one of ", Names(devices),
                ", or transport udp");
  }
  if (!device.ethernet) {
    throw Error(field, "this is no Ethernet device: expected one of ", Names(devices));
  }
  if (!device.up) {
    throw NetworkDownError(field, "it is down: expected one that is up (ip link set ", device.name,
                           " up)");
  }
  if (device.mtu == 0) throw Error(field, "its MTU is not known: it has gone meanwhile");
  return {device.name, device.index, *device.address, device.mtu};
}

}  // namespace millrace::inline transport
