// What a plan asks of the machine that it is made on; tests put their own in its place.
#ifndef MILLRACE_TOPOLOGY_MACHINE_H_
#define MILLRACE_TOPOLOGY_MACHINE_H_

#include <functional>
#include <string>
#include <vector>

#include "device/device.h"

namespace millrace {

struct NetworkInterface {
  std::string name;
  std::string mac;  // "52:54:00:12:34:56", lower case; "" if it has none
  int mtu = 0;      // bytes of a packet
};

struct Machine {
  // Those of this process's network namespace, in the kernel's order. Throws Error.
  std::function<std::vector<NetworkInterface>()> interfaces;
  // Where the key file `path` that the topology file `named_in` names lies. Throws Error if
  // there is none that can be used (ReadKeyFile).
  std::function<std::string(const std::string& path, const std::string& named_in)> find_key;

  // Throws Error if no replica can lie in the memory of that device: this build or this machine
  // has no such one.
  std::function<void(DeviceType type, int ordinal)> check_device;

  static Machine This();
};

// The interfaces of this process's network namespace. Throws Error.
std::vector<NetworkInterface> ListInterfaces();

}  // namespace millrace

#endif  // MILLRACE_TOPOLOGY_MACHINE_H_
