// Access to the machine on which a plan is made. Tests replace it.
#ifndef MILLRACE_TOPOLOGY_MACHINE_H_
#define MILLRACE_TOPOLOGY_MACHINE_H_

#include <functional>
#include <string>
#include <vector>

#include "millrace/device.h"

namespace millrace::inline topology {

struct NetworkInterface {
  std::string name;
  std::string mac;  // "52:54:00:12:34:56", lower case; "" if none
  int mtu = 0;      // bytes of a packet
};

struct Machine {
  // Interfaces of this process's network namespace, in the kernel's order. Throws Error.
  std::function<std::vector<NetworkInterface>()> interfaces;
  // Resolves the key file `path` as given in the topology file `named_in`. Throws Error if there is
  // no usable key file (ReadKeyFile).
  std::function<std::string(const std::string& path, const std::string& named_in)> find_key;

  // Throws Error if the device's memory cannot hold a replica, because this build or this machine
  // has no such device.
  std::function<void(DeviceType type, int ordinal)> check_device;

  static Machine This();
};

// Interfaces of this process's network namespace, in the kernel's order. Throws Error.
std::vector<NetworkInterface> ListInterfaces();

}  // namespace millrace::inline topology

#endif  // MILLRACE_TOPOLOGY_MACHINE_H_
